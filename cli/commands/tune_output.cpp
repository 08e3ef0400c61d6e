// From the sentence to the tables: the best configuration, the first ones, the front of time and memory, and
// what each choice costs against the best. Configurations that differ in nothing that has an effect are one
// line of the text; files have all of them.

#include "cli/commands/tune_output.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "report/print/chart_svg.hpp"
#include "report/print/escaping.hpp"
#include "report/print/html_page.hpp"
#include "report/print/palette.hpp"
#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "scenarios/architecture/architecture.hpp"
#include "scenarios/model/device_model.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/parallel.hpp"
#include "scenarios/pricing/workload.hpp"
#include "schedules/ir/action.hpp"
#include "sim/measured/ratio_spread.hpp"
#include "sim/tuning/configuration.hpp"
#include "sim/tuning/sensitivity.hpp"
#include "sim/tuning/tune.hpp"
#include "topology/unit_factors.hpp"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kShownRows = 10;
constexpr double kSecondsPerDay = 86'400;

double seconds_of(const TunedConfiguration& tuned) {
  return static_cast<double>(tuned.step_ns) * kSecondsPerNanosecond;
}

/// Tokens per second and device over the best one's, less one.
double against(const TunedConfiguration& tuned, const TunedConfiguration& best) {
  return tuned.tokens_per_second_per_device / best.tokens_per_second_per_device - 1;
}

std::string exchange_text(const Configuration& of) {
  return of.context == 1 ? "" : std::string(to_text(of.context_exchange));
}

std::string split_text(const TuneRequest& request, const Configuration& of) {
  return to_text(request.layer_splits[of.layer_split]);
}

std::string gib(Bytes bytes) { return fmt::format("{:.2f}", static_cast<double>(bytes) / kBytesPerGibibyte); }

std::string gain_text(double part) { return fmt::format("{:+.1f} %", 100 * part); }

/// Seconds of training all tokens.
double whole_seconds(const TuneAnswer& answer, const TunedConfiguration& tuned) {
  const double tokens_per_step = static_cast<double>(answer.request.global_batch_size) *
                                 static_cast<double>(model_of(answer.request).work.sequence);
  return *answer.tokens / tokens_per_step * seconds_of(tuned);
}

std::optional<double> whole_cost(const TuneAnswer& answer, const TunedConfiguration& tuned) {
  const auto& price = answer.request.base.cluster.price_per_device_hour;
  if (!price || !answer.tokens) return std::nullopt;
  return whole_seconds(answer, tuned) / 3600 * *price *
         static_cast<double>(device_count(tuned.configuration));
}

// --- tables -----------------------------------------------------------------------------------------------

Cell count(std::int64_t number) { return {fmt::to_string(number), static_cast<double>(number)}; }
Cell words(std::string text) { return {std::move(text), std::nullopt}; }

/// Columns of a configuration that the space has more than one of, or that say what it is.
Table configurations_table(const TuneAnswer& answer, const std::vector<std::size_t>& numbers) {
  const auto& candidates = answer.report.candidates;
  Table table;
  table.columns = {"#",         "tp",          "cp",       "exchange",        "ep",  "dp",
                   "pp",        "v",           "schedule", "layers",          "mbs", "M",
                   "recompute", "ZeRO",        "step s",   "tokens/s/device", "MFU", "GiB",
                   "fits",      "against best"};
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
        words(split_text(answer.request, of)),
        count(of.micro_batch_size),
        count(of.microbatches),
        words(std::string(to_text(of.recompute))),
        count(of.sharding),
        {fmt::format("{:.4f}", seconds_of(tuned)), seconds_of(tuned)},
        {fmt::format("{:.1f}", tuned.tokens_per_second_per_device), tuned.tokens_per_second_per_device},
        {format_percent(tuned.mfu), tuned.mfu},
        {gib(tuned.peak_bytes), static_cast<double>(tuned.peak_bytes)},
        words(tuned.fits ? "yes" : "no"),
        {gain_text(against(tuned, candidates.front())), against(tuned, candidates.front())}};
    if (answer.tokens) {
      const double days = whole_seconds(answer, tuned) / kSecondsPerDay;
      row.push_back({fmt::format("{:.1f}", days), days});
    }
    if (const auto cost = whole_cost(answer, tuned)) row.push_back({fmt::format("{:.0f}", *cost), cost});
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::vector<std::size_t> all_numbers(const TuneReport& report) {
  std::vector<std::size_t> numbers(report.candidates.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = i;
  return numbers;
}

/// Selective recomputation recomputes what fused attention never keeps.
bool is_twin(const TunedConfiguration& a, const TunedConfiguration& b) {
  Configuration plain = b.configuration;
  plain.recompute = a.configuration.recompute;
  return plain == a.configuration && a.step_ns == b.step_ns && a.peak_bytes == b.peak_bytes;
}

std::vector<std::size_t> shown_numbers(const TuneReport& report) {
  std::vector<std::size_t> shown;
  for (const std::size_t number : all_numbers(report)) {
    const bool has_twin = std::ranges::any_of(shown, [&](std::size_t other) {
      return is_twin(report.candidates[other], report.candidates[number]);
    });
    if (!has_twin) shown.push_back(number);
    if (shown.size() == kShownRows) break;
  }
  return shown;
}

/// "8.1 % slower", "the best".
std::string cost_text(const TuneReport& report, std::size_t number) {
  const double gain = against(report.candidates[number], report.candidates.front());
  if (gain == 0) return "as fast as the best";
  return gain < 0 ? fmt::format("{:.1f} % slower", -100 * gain) : fmt::format("{:.1f} % faster", 100 * gain);
}

std::string missing_text(const TuneAnswer& answer, const TunedConfiguration& tuned) {
  const Bytes memory = model_of(answer.request).work.device.memory_bytes;
  return fmt::format("does not fit by {} GiB", gib(tuned.peak_bytes - memory));
}

Table choices_table(const TuneAnswer& answer) {
  const TuneReport& report = answer.report;
  Table table;
  table.columns = {"choice", "value", "the best with it", "#", "faster, but too large", "#"};
  for (const ChoiceCost& choice : report.choices) {
    // Where there is one value there is no choice.
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

std::string configuration_text(const TuneRequest& request, const Configuration& of) {
  std::string degrees = fmt::format("tensor {}", of.tensor);
  if (of.context > 1) degrees += fmt::format(", context {} ({})", of.context, exchange_text(of));
  if (of.expert > 1) degrees += fmt::format(", expert {}", of.expert);
  return fmt::format(
      "{}, {} stages x {}, data {}, {}, layers {}, {} microbatches of {}, recompute {}, ZeRO {}", degrees,
      of.stages, of.virtual_stages, of.data, of.schedule, split_text(request, of), of.microbatches,
      of.micro_batch_size, to_text(of.recompute), of.sharding);
}

Table sensitivity_table(const TuneAnswer& answer) {
  Table table;
  table.columns = {"figure", "times", "the best there", "tokens/s/device", "the one above there"};
  for (const SensitivityRow& row : answer.sensitivity) {
    const TunedConfiguration& best = row.best;
    const std::string loss = !row.loss          ? "does not fit"
                             : *row.loss == 0.0 ? "is the best"
                                                : fmt::format("{:.1f} % slower", -100 * *row.loss);
    table.rows.push_back(
        {words(std::string(row.figure)),
         {fmt::format("{}", row.factor), row.factor},
         words(best.fits ? configuration_text(answer.request, best.configuration) : "nothing fits"),
         {fmt::format("{:.1f}", best.tokens_per_second_per_device), best.tokens_per_second_per_device},
         words(loss)});
  }
  return table;
}

// --- sentences --------------------------------------------------------------------------------------------

std::string question_text(const TuneAnswer& answer) {
  const TuneRequest& request = answer.request;
  const Workload& work = model_of(request).work;
  return fmt::format("{} of {:.2f} B parameters on {} x {}, sequence {}, global batch {}, {}",
                     work.model.family, static_cast<double>(parameters(work.model)) * 1e-9,
                     device_count(answer.report.candidates.front().configuration), work.device.name,
                     work.sequence, request.global_batch_size, to_text(work.precision));
}

std::string effort_text(const TuneAnswer& answer) {
  const TuneReport& report = answer.report;
  return fmt::format("{} configurations: {} timed, {} too large, {} too slow by their bounds; {:.2f} s",
                     report.space, report.evaluated, report.pruned_by_memory, report.pruned_by_time,
                     answer.seconds);
}

std::string best_text(const TuneAnswer& answer) {
  const TunedConfiguration& best = answer.report.candidates.front();
  if (!best.fits) return "nothing fits in memory; the fastest first:";
  return fmt::format("best: {}\n      {:.1f} tokens/s a device, MFU {}, {:.4f} s a step, {} GiB",
                     configuration_text(answer.request, best.configuration),
                     best.tokens_per_second_per_device, format_percent(best.mfu), seconds_of(best),
                     gib(best.peak_bytes));
}

std::string told_text(const TuneAnswer& answer) {
  if (!answer.told) return {};
  const auto as_good = std::ranges::count(answer.told->groups, std::size_t{0});
  const RatioSpread& spread = answer.told->spread;
  return fmt::format(
      "{} of the {} listed cannot be told from the best: errors of predictions differ by {:.1f} % among {} "
      "measured steps in {} groups of one model on one site's devices, and they are within twice that\n",
      as_good - 1, answer.report.candidates.size() - 1, 100 * spread.deviation, spread.rows, spread.groups);
}

// --- JSON -------------------------------------------------------------------------------------------------

Json configuration_json(const TuneRequest& request, const Configuration& of) {
  return {{"nodes", of.nodes},
          {"tensor", of.tensor},
          {"context", of.context},
          {"context_exchange", to_text(of.context_exchange)},
          {"expert", of.expert},
          {"data", of.data},
          {"stages", of.stages},
          {"virtual_stages", of.virtual_stages},
          {"schedule", of.schedule},
          {"layer_split", split_text(request, of)},
          {"micro_batch_size", of.micro_batch_size},
          {"microbatches", of.microbatches},
          {"recompute", to_text(of.recompute)},
          {"sharding", of.sharding}};
}

Json candidate_json(const TuneAnswer& answer, const TunedConfiguration& tuned) {
  Json object = configuration_json(answer.request, tuned.configuration);
  object["step_ns"] = tuned.step_ns;
  object["mfu"] = tuned.mfu;
  object["tokens_per_second_per_device"] = tuned.tokens_per_second_per_device;
  object["peak_bytes"] = tuned.peak_bytes;
  object["fits"] = tuned.fits;
  object["constructed"] = tuned.constructed;
  if (answer.tokens) object["training_seconds"] = whole_seconds(answer, tuned);
  if (const auto cost = whole_cost(answer, tuned)) object["training_cost"] = *cost;
  return object;
}

Json or_null(const std::optional<std::size_t>& number) { return number ? Json(*number) : Json(nullptr); }

std::string dumped(const Json& document) {
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

// --- the page ---------------------------------------------------------------------------------------------

Chart front_chart(const TuneAnswer& answer) {
  const TuneReport& report = answer.report;
  const auto point = [&](const TunedConfiguration& tuned) {
    return ChartPoint{.x = static_cast<double>(tuned.peak_bytes) / kBytesPerGibibyte,
                      .y = tuned.tokens_per_second_per_device};
  };
  Chart chart;
  chart.title = "Tokens per second and device over memory";
  chart.x_label = "GiB of the fullest device";
  chart.y_label = "tokens/s/device";
  chart.width = 760;
  chart.height = 420;
  for (const TunedConfiguration& tuned : report.candidates) {
    ChartCurve dot{.label = chart.curves.empty() ? "configurations" : ""};
    dot.colour = curve_colour(0, 2);
    dot.dots = true;
    dot.points = {point(tuned)};
    chart.curves.push_back(std::move(dot));
  }
  ChartCurve front{.label = "not beaten"};
  front.colour = curve_colour(1, 2);
  front.dots = true;
  for (const std::size_t number : report.front) front.points.push_back(point(report.candidates[number]));
  std::ranges::sort(front.points, {}, &ChartPoint::x);
  chart.curves.push_back(std::move(front));
  return chart;
}

}  // namespace

std::string tune_text(const TuneAnswer& answer, std::size_t width) {
  const TuneReport& report = answer.report;
  std::vector<std::size_t> front = report.front;
  if (front.size() > kShownRows) front.resize(kShownRows);
  std::string text = fmt::format(
      "{}\n{}\n\n{}\n{}\n{}\nNot beaten in time and memory\n{}\nWhat each choice costs\n{}",
      question_text(answer), effort_text(answer), best_text(answer), told_text(answer),
      table_to_text(configurations_table(answer, shown_numbers(report)), width),
      table_to_text(configurations_table(answer, front), width), table_to_text(choices_table(answer), width));
  if (!answer.sensitivity.empty()) {
    text += fmt::format("\nOn machines with one figure changed\n{}",
                        table_to_text(sensitivity_table(answer), width));
  }
  for (const std::string& note : answer.report.notes) text += fmt::format("\nnote: {}\n", note);
  if (!answer.launch.empty()) text += "\n" + answer.launch;
  return text;
}

std::string tune_json(const TuneAnswer& answer) {
  const TuneReport& report = answer.report;
  Json document = {{"schema_version", 1},
                   {"kind", "tune"},
                   {"space", report.space},
                   {"evaluated", report.evaluated},
                   {"pruned", {{"memory", report.pruned_by_memory}, {"time", report.pruned_by_time}}},
                   {"seconds", answer.seconds}};
  document["candidates"] = Json::array();
  for (std::size_t i = 0; i < report.candidates.size(); ++i) {
    document["candidates"].push_back(candidate_json(answer, report.candidates[i]));
    if (answer.told) document["candidates"].back()["group"] = answer.told->groups[i];
  }
  if (answer.told) {
    const RatioSpread& spread = answer.told->spread;
    document["ratio_error"] = {
        {"deviation", spread.deviation}, {"rows", spread.rows}, {"groups", spread.groups}};
  }
  document["front"] = report.front;
  document["choices"] = Json::array();
  for (const ChoiceCost& choice : report.choices) {
    document["choices"].push_back({{"choice", choice.choice},
                                   {"value", choice.value},
                                   {"best", or_null(choice.best)},
                                   {"faster", or_null(choice.faster)}});
  }
  document["sensitivity"] = Json::array();
  for (const SensitivityRow& row : answer.sensitivity) {
    document["sensitivity"].push_back({{"figure", row.figure},
                                       {"factor", row.factor},
                                       {"best", candidate_json(answer, row.best)},
                                       {"loss", row.loss ? Json(*row.loss) : Json(nullptr)}});
  }
  document["notes"] = report.notes;
  if (!answer.launch.empty()) document["launch"] = answer.launch;
  return dumped(document);
}

std::string tune_csv(const TuneAnswer& answer) {
  std::string text;
  const auto add_line = [&](const std::vector<std::string>& fields) {
    text += fmt::format("{}\n", fmt::join(fields, ","));
  };
  std::vector<std::string> fields;
  for (const TunedConfiguration& tuned : answer.report.candidates) {
    const Json object = candidate_json(answer, tuned);
    fields.clear();
    if (text.empty()) {
      for (const auto& [key, value] : object.items()) fields.push_back(key);
      add_line(std::exchange(fields, {}));
    }
    for (const auto& [key, value] : object.items())
      fields.push_back(csv_field(value.is_string() ? value.get<std::string>() : value.dump()));
    add_line(fields);
  }
  return text;
}

std::string tune_html(const TuneAnswer& answer) {
  HtmlPage page;
  page.title = "Configurations by what they take";
  page.body = fmt::format("<p>{}</p>\n<p class=\"note\">{}</p>\n{}\n", xml_escaped(question_text(answer)),
                          xml_escaped(effort_text(answer)), chart_to_svg(front_chart(answer)));
  page.has_filters = true;
  page.body += fmt::format(
      "<h2>Configurations</h2>\n<input class=\"filter\" size=\"60\" placeholder=\"rows with: zb-v pp=4 "
      "fits=yes\"/>\n<div class=\"scroll\">\n{}</div>\n",
      table_to_html(configurations_table(answer, all_numbers(answer.report))));
  page.body += table_section("What each choice costs", choices_table(answer));
  if (!answer.sensitivity.empty())
    page.body += table_section("On machines with one figure changed", sensitivity_table(answer));
  for (const std::string& note : answer.report.notes)
    page.body += fmt::format("<p class=\"note\">{}</p>\n", xml_escaped(note));
  return html_page(page);
}

std::string space_json(const TuneRequest& request, const std::vector<Configuration>& space) {
  Json document = {{"schema_version", 1}, {"kind", "space"}, {"configurations", Json::array()}};
  for (const Configuration& of : space) document["configurations"].push_back(configuration_json(request, of));
  return dumped(document);
}

std::string space_text(const TuneRequest& request, const std::vector<Configuration>& space) {
  std::string text;
  for (const Configuration& of : space) {
    text += fmt::format(
        "nodes {} tensor {} context {} {} expert {} data {} stages {} virtual {} {} {} microbatch {} x {} "
        "recompute {} sharding {}\n",
        of.nodes, of.tensor, of.context, to_text(of.context_exchange), of.expert, of.data, of.stages,
        of.virtual_stages, of.schedule, split_text(request, of), of.micro_batch_size, of.microbatches,
        to_text(of.recompute), of.sharding);
  }
  return text + fmt::format("{} configurations\n", space.size());
}

}  // namespace penstock
