// Computes the time and price of a whole training. Each step trains one global batch of sequences, so the
// training takes
//
//     tokens / (global batch x sequence) steps
//
// The price is this time multiplied by the number of devices and the price of one device.

#include "cli/commands/tune_answer.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/workload.hpp"
#include "schedules/ir/action.hpp"
#include "sim/choose/configuration.hpp"
#include "sim/choose/tune.hpp"
#include "sim/choose/tune_questions.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {

double step_seconds(const TunedConfiguration& tuned) {
  return static_cast<double>(tuned.step_ns) * kSecondsPerNanosecond;
}

double gain_against(const TunedConfiguration& tuned, const TunedConfiguration& best) {
  return tuned.tokens_per_second_per_device / best.tokens_per_second_per_device - 1;
}

double training_seconds(const TuneAnswer& answer, const TunedConfiguration& tuned) {
  const double tokens_per_step = static_cast<double>(answer.request.global_batch_size) *
                                 static_cast<double>(model_of(answer.request).work.sequence);
  return *answer.tokens / tokens_per_step * step_seconds(tuned);
}

std::optional<double> training_cost(const TuneAnswer& answer, const TunedConfiguration& tuned) {
  const auto& price = answer.request.base.cluster.price_per_device_hour;
  if (!price || !answer.tokens) return std::nullopt;
  return training_seconds(answer, tuned) / 3600 * *price *
         static_cast<double>(device_count(tuned.configuration));
}

std::string split_text(const TuneRequest& request, const Configuration& of) {
  return to_text(request.layer_splits[of.layer_split]);
}

std::string layers_text(const TuneRequest& request, const TunedConfiguration& tuned) {
  std::string text = split_text(request, tuned.configuration);
  if (request.layer_splits[tuned.configuration.layer_split].rule != LayerSplit::Rule::balanced) return text;
  for (auto next = tuned.layers.begin(); next != tuned.layers.end();) {
    const auto end =
        std::find_if(next, tuned.layers.end(), [&](std::int64_t other) { return other != *next; });
    text += end - next == 1 ? fmt::format(" {}", *next) : fmt::format(" {}*{}", *next, end - next);
    next = end;
  }
  return text;
}

// Makes the tables of an answer. Each row is a configuration with its figures and its distance from the best.

namespace {

constexpr double kSecondsPerDay = 86'400;

/// Returns the name of the exchange with which context parallelism passes data between devices. It is empty
/// without context parallelism.
std::string exchange_text(const Configuration& of) {
  return of.context == 1 ? "" : std::string(to_text(of.context_exchange));
}

std::string gain_text(double part) { return fmt::format("{:+.1f} %", 100 * part); }

Cell count(std::int64_t number) { return {fmt::to_string(number), static_cast<double>(number)}; }
Cell words(std::string text) { return {std::move(text), std::nullopt}; }

/// Returns a text that compares a configuration with the best one, such as "8.1 % slower" or "as fast as
/// the best". A configuration that does not fit into memory may be "2.0 % faster". "about" stands in front of
/// an estimate.
std::string cost_text(const TuneReport& report, std::size_t number) {
  const double gain = gain_against(report.candidates[number], report.candidates.front());
  if (gain == 0) return "as fast as the best";
  return fmt::format("{}{:.1f} % {}", report.candidates[number].estimated ? "about " : "",
                     100 * std::abs(gain), gain < 0 ? "slower" : "faster");
}

}  // namespace

std::string gib(Bytes bytes) { return fmt::format("{:.2f}", static_cast<double>(bytes) / kBytesPerGibibyte); }

std::string missing_text(const TuneAnswer& answer, const TunedConfiguration& tuned) {
  const Bytes lacking = tuned.peak_bytes - tuned.usable_bytes.value_or(tuned.peak_bytes);
  const bool is_mixed = !model_of(answer.request).kinds.empty();
  return fmt::format("does not fit{} by {} GiB", is_mixed ? " on its fullest device" : "", gib(lacking));
}

std::vector<std::size_t> shown_configurations(const TuneAnswer& answer) {
  std::vector<std::size_t> numbers(std::min(answer.top, answer.report.candidates.size()));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

Table configurations_table(const TuneAnswer& answer, const std::vector<std::size_t>& numbers) {
  const auto& candidates = answer.report.candidates;
  // Two configurations may differ in the placement of their groups alone. Usually all have the default order.
  const bool has_orders = std::ranges::any_of(numbers, [&](std::size_t number) {
    return candidates[number].configuration.order != Parallel{}.order;
  });
  Table table;
  table.keys = has_orders ? 15 : 14;
  table.columns = {"#",         "tp",          "cp",       "exchange",        "ep",  "dp",
                   "pp",        "v",           "schedule", "layers",          "mbs", "M",
                   "recompute", "ZeRO",        "step s",   "tokens/s/device", "MFU", "GiB",
                   "fits",      "against best"};
  const bool is_mixed = !model_of(answer.request).kinds.empty();
  if (is_mixed) table.columns.emplace_back("groups");
  const bool has_offload = may_offload(answer.request);
  if (has_offload) table.columns.emplace_back("offload");
  constexpr std::ptrdiff_t kOrderColumn = 6;  // the column after the degrees of parallelism
  if (has_orders) table.columns.insert(table.columns.begin() + kOrderColumn, "order");
  if (answer.tokens) table.columns.emplace_back("days");
  if (answer.tokens && answer.request.base.cluster.price_per_device_hour) table.columns.emplace_back("cost");
  for (const std::size_t number : numbers) {
    const TunedConfiguration& tuned = candidates[number];
    const Configuration& of = tuned.configuration;
    std::vector<Cell> row = {
        count(static_cast<std::int64_t>(number) + 1),
        count(of.tensor),
        count(of.context),
        words(exchange_text(of)),
        count(of.expert),
        count(of.data),
        count(of.stages),
        count(of.virtual_stages),
        words(std::string(of.schedule)),
        words(layers_text(answer.request, tuned)),
        count(of.micro_batch_size),
        count(of.microbatches),
        words(recompute_text(answer.request, of.recompute)),
        count(of.sharding),
        {fmt::format("{}{:.4f}", tuned.estimated ? "~" : "", step_seconds(tuned)), step_seconds(tuned)},
        {fmt::format("{:.1f}", tuned.tokens_per_second_per_device), tuned.tokens_per_second_per_device},
        {format_percent(tuned.mfu), tuned.mfu},
        {gib(tuned.peak_bytes), static_cast<double>(tuned.peak_bytes)},
        words(tuned.fits ? "yes" : "no"),
        {gain_text(gain_against(tuned, candidates.front())), gain_against(tuned, candidates.front())}};
    if (is_mixed) row.push_back(words(std::string(to_text(of.group_order))));
    if (has_offload) row.push_back(words(offload_text(of.offload)));
    if (has_orders) row.insert(row.begin() + kOrderColumn, words(std::string(to_text(of.order))));
    if (answer.tokens) {
      const double days = training_seconds(answer, tuned) / kSecondsPerDay;
      row.push_back({fmt::format("{:.1f}", days), days});
    }
    if (const auto cost = training_cost(answer, tuned)) row.push_back({fmt::format("{:.0f}", *cost), cost});
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table choices_table(const TuneAnswer& answer) {
  const TuneReport& report = answer.report;
  Table table;
  table.keys = 2;
  table.columns = {"choice", "value", "the best with it", "#", "faster, but too large", "#"};
  for (const ChoiceCost& choice : report.choices) {
    // A choice that has only one value is omitted.
    if (std::ranges::count(report.choices, choice.choice, &ChoiceCost::choice) == 1) continue;
    std::vector<Cell> row = {words(std::string(choice.choice)), words(choice.value)};
    if (choice.best) {
      row.push_back(words(cost_text(report, *choice.best)));
      row.push_back(count(static_cast<std::int64_t>(*choice.best) + 1));
    } else {
      row.push_back(words("nothing fits"));
      row.push_back(words(""));
    }
    if (choice.faster) {
      const TunedConfiguration& faster = report.candidates[*choice.faster];
      row.push_back(
          words(fmt::format("{}, {}", cost_text(report, *choice.faster), missing_text(answer, faster))));
      row.push_back(count(static_cast<std::int64_t>(*choice.faster) + 1));
    } else {
      row.push_back(words(""));
      row.push_back(words(""));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string configuration_text(const TuneRequest& request, const TunedConfiguration& tuned) {
  const Configuration& of = tuned.configuration;
  std::string degrees = fmt::format("tensor {}", of.tensor);
  if (of.context > 1) degrees += fmt::format(", context {} ({})", of.context, exchange_text(of));
  if (of.expert > 1) degrees += fmt::format(", expert {}", of.expert);
  if (of.order != Parallel{}.order) degrees += fmt::format(", order {}", to_text(of.order));
  if (!model_of(request).kinds.empty()) degrees += fmt::format(", groups {}", to_text(of.group_order));
  return fmt::format(
      "{}, {} stages x {}, data {}, {}, layers {}, {} microbatches of {}, recompute {}, ZeRO {}{}", degrees,
      of.stages, of.virtual_stages, of.data, of.schedule, layers_text(request, tuned), of.microbatches,
      of.micro_batch_size, recompute_text(request, of.recompute), of.sharding,
      of.offload > 0 ? ", offload " + offload_text(of.offload) : "");
}

Table sensitivity_table(const TuneAnswer& answer) {
  Table table;
  // The columns show how much slower the best configuration of this machine is. It cannot be faster than the
  // best one of the other machine, so the values are at most 0.
  table.keys = 2;
  table.columns = {"figure", "times", "the best there", "tokens/s/device", "the one above there"};
  for (const SensitivityRow& row : answer.sensitivity) {
    const TunedConfiguration& best = row.best;
    const std::string loss = !row.loss          ? "does not fit"
                             : *row.loss == 0.0 ? "is the best"
                                                : fmt::format("{:.1f} % slower", -100 * *row.loss);
    table.rows.push_back(
        {words(std::string(row.figure)),
         {fmt::format("{}", row.factor), row.factor},
         words(best.fits ? configuration_text(answer.request, best) : "nothing fits"),
         {fmt::format("{:.1f}", best.tokens_per_second_per_device), best.tokens_per_second_per_device},
         words(loss)});
  }
  return table;
}

}  // namespace penstock
