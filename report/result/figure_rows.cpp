// The table of all figures. Each row refers to the field of its figure, so that readers and writers need not
// name fields:
//
//   rank_figure<&RankReport::busy_ns>(..)    get: rank.busy_ns    set: rank.busy_ns = value
//
// Papers use the name "bubble" for different figures. Therefore there are three, where T is the makespan:
//
//   idle_over_total   = sum idle / (ranks * T)
//   idle_over_ideal   = sum idle / sum busy
//   longest_span_rate = (S - busy) / S on the rank with the longest span S from its first to its last action
//
// For GPipe and 1F1B, the first one is (K - 1) / (M + K - 1) and the second one is (K - 1) / M.
//
// tests/report/figures_test.cpp checks the reference page that is generated from the rows.

#include "report/result/result_figures.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

/// The texts and limits of a row in the table of figures. The functions that read and write the field are not
/// included.
struct RankText {
  std::string_view key;
  std::string_view title;
  FigureUnit unit;
  FigureBound bound;
  std::string_view meaning;
  AbsentFigure absent = AbsentFigure::never;
};

/// Returns the row of the table of figures for one figure of a rank. `members` is the path to its field. An
/// example is <&RankReport::memory, &RankMemory::peak_bytes>.
template <auto... members>
consteval RankFigure rank_figure(const RankText& text) {
  using Member = std::remove_cvref_t<decltype((std::declval<RankReport&>().*....*members))>;
  return {
      .key = text.key,
      .title = text.title,
      .unit = text.unit,
      .bound = text.bound,
      .meaning = text.meaning,
      .get = [](const RankReport& rank) { return static_cast<std::int64_t>((rank.*....*members)); },
      .set = [](RankReport& rank, std::int64_t value) { (rank.*....*members) = static_cast<Member>(value); },
      // Clocks of devices may differ, so a measured idle time may be slightly below 0.
      .least = text.bound == FigureBound::up_to_makespan ? std::numeric_limits<std::int64_t>::min() : 0,
      .most = std::numeric_limits<Member>::max(),
      .absent = text.absent};
}

constexpr std::array kRankFigures = {
    rank_figure<&RankReport::busy_ns>(
        {.key = "busy_ns",
         .title = "busy",
         .unit = FigureUnit::nanoseconds,
         .bound = FigureBound::within_run,
         .meaning = "Time in compute actions; an overlapped pair counts once."}),
    rank_figure<&RankReport::idle_ns>({.key = "idle_ns",
                                       .title = "idle",
                                       .unit = FigureUnit::nanoseconds,
                                       .bound = FigureBound::up_to_makespan,
                                       .meaning = "The makespan less the busy time."}),
    rank_figure<&RankReport::exposed_communication_ns>(
        {.key = "exposed_communication_ns",
         .title = "exposed comm",
         .unit = FigureUnit::nanoseconds,
         .bound = FigureBound::within_run,
         .meaning = "Idle time while a message or collective runs that the next compute action waits for."}),
    rank_figure<&RankReport::memory, &RankMemory::peak_bytes>(
        {.key = "peak_bytes",
         .title = "peak memory",
         .unit = FigureUnit::memory,
         .bound = FigureBound::not_negative,
         .meaning = "The most memory that is held at once."}),
    rank_figure<&RankReport::peak_live_activations>(
        {.key = "peak_live_activations",
         .title = "live act.",
         .unit = FigureUnit::count,
         .bound = FigureBound::not_negative,
         .meaning = "Activations of microbatches alive at once, from F's start to the end of B or W."}),
    rank_figure<&RankReport::weight_versions>(
        {.key = "weight_versions",
         .title = "weight versions",
         .unit = FigureUnit::count,
         .bound = FigureBound::not_negative,
         .meaning = "The most versions of one stage's weights alive at once."}),
    rank_figure<&RankReport::sent_bytes>(
        {.key = "sent_bytes",
         .title = "sent",
         .unit = FigureUnit::bytes,
         .bound = FigureBound::not_negative,
         .meaning = "Bytes of the rank's SENDs, and its part of collectives in a ring."}),
    rank_figure<&RankReport::received_bytes>(
        {.key = "received_bytes",
         .title = "received",
         .unit = FigureUnit::bytes,
         .bound = FigureBound::not_negative,
         .meaning = "Bytes of the rank's RECVs, and its part of collectives in a ring."}),
};

/// Returns the row of the table of figures for one figure of the run. Its field is `member` of `part`, and
/// `row` gives the other columns.
template <auto part, auto member>
consteval RunFigure run_figure(RunFigure row) {
  row.get = [](const RunFigures& run) { return std::optional<double>(run.*part.*member); };
  row.set = [](RunFigures& run, double value) { run.*part.*member = value; };
  return row;
}

/// Returns the row of the table of figures for a rate that exists only if the size of the model is known.
/// Such a rate is present exactly when `mfu` is present.
template <auto member>
consteval RunFigure model_rate(RunFigure row) {
  row.section = "throughput";
  row.headline = "training";
  row.get = [](const RunFigures& run) {
    const auto& rates = run.throughput.model;
    return rates ? std::optional<double>((*rates).*member) : std::nullopt;
  };
  row.set = [](RunFigures& run, double value) {
    auto& rates = run.throughput.model;
    if (!rates) rates.emplace();
    (*rates).*member = value;
  };
  row.absent = AbsentFigure::left_out;
  row.comes_with = "mfu";
  return row;
}

/// Returns the row of the table of figures for a figure that only a prefill run has. Prefill means forward
/// passes that store keys and values.
template <auto member>
consteval RunFigure prefill_rate(RunFigure row) {
  row.section = "throughput";
  row.headline = "prefill";
  row.get = [](const RunFigures& run) {
    const auto& rates = run.throughput.prefill;
    return rates ? std::optional<double>((*rates).*member) : std::nullopt;
  };
  row.set = [](RunFigures& run, double value) {
    auto& rates = run.throughput.prefill;
    if (!rates) rates.emplace();
    (*rates).*member = value;
  };
  row.absent = AbsentFigure::left_out;
  return row;
}

constexpr std::array kRunFigures = {
    run_figure<&RunFigures::bubble, &BubbleReport::idle_over_total>(
        {.section = "bubble",
         .key = "idle_over_total",
         .unit = FigureUnit::part,
         .bound = FigureBound::part,
         .meaning = "The sum of idle times over ranks times makespan.",
         .headline = "bubble",
         .text = "{} of the total",
         .column = "bubble"}),
    run_figure<&RunFigures::bubble, &BubbleReport::idle_over_ideal>(
        {.section = "bubble",
         .key = "idle_over_ideal",
         .unit = FigureUnit::part,
         .bound = FigureBound::not_negative,
         .meaning = "The sum of idle times over the sum of busy times; 0 if nothing is busy.",
         .headline = "bubble",
         .text = "{} of the ideal"}),
    run_figure<&RunFigures::bubble, &BubbleReport::longest_span_rate>(
        {.section = "bubble",
         .key = "longest_span_rate",
         .unit = FigureUnit::part,
         .bound = FigureBound::part,
         .meaning = "The idle part of the longest span from a rank's first to its last compute action.",
         .headline = "bubble",
         .text = "{} of the longest span"}),
    run_figure<&RunFigures::throughput, &ThroughputReport::samples_per_second>(
        {.section = "throughput",
         .key = "samples_per_second",
         .unit = FigureUnit::per_second,
         .bound = FigureBound::not_negative,
         .meaning = "Samples over the makespan; 0 if the makespan is 0.",
         .headline = "throughput",
         .text = "{} samples/s over the run",
         .column = "samples/s"}),
    run_figure<&RunFigures::throughput, &ThroughputReport::steady_samples_per_second>(
        {.section = "throughput",
         .key = "steady_samples_per_second",
         .unit = FigureUnit::per_second,
         .bound = FigureBound::not_negative,
         .meaning = "Samples per period of the endlessly repeated program; absent if it has no period.",
         .headline = "throughput",
         .text = "{} samples/s steady",
         .absent = AbsentFigure::null,
         .column = "steady /s"}),
    run_figure<&RunFigures::throughput, &ThroughputReport::samples>(
        {.section = "throughput",
         .key = "samples",
         .unit = FigureUnit::count,
         .bound = FigureBound::not_negative,
         .meaning = "Microbatches times their size times iterations.",
         .headline = "samples",
         .text = "{}",
         .in_sweep = false}),
    run_figure<&RunFigures::throughput, &ThroughputReport::samples_per_update>(
        {.section = "throughput",
         .key = "samples_per_update",
         .unit = FigureUnit::count,
         .bound = FigureBound::not_negative,
         .meaning = "Samples that one STEP of the input stage covers.",
         .headline = "samples",
         .text = "{} per update"}),
    run_figure<&RunFigures::throughput, &ThroughputReport::cost_per_million_samples>(
        {.section = "throughput",
         .key = "cost_per_million_samples",
         .unit = FigureUnit::money,
         .bound = FigureBound::not_negative,
         .meaning = "Cost at the steady rate, or else at that of the run; absent if devices have no price.",
         .headline = "throughput",
         .text = "{} a million samples",
         .absent = AbsentFigure::left_out,
         .column = "cost/M samples"}),
    model_rate<&ModelRates::tokens_per_second>({.key = "tokens_per_second",
                                                .unit = FigureUnit::per_second,
                                                .bound = FigureBound::not_negative,
                                                .meaning = "Tokens of all copies.",
                                                .text = "{} tokens/s"}),
    model_rate<&ModelRates::tokens_per_second_per_device>({.key = "tokens_per_second_per_device",
                                                           .unit = FigureUnit::per_second,
                                                           .bound = FigureBound::not_negative,
                                                           .meaning = "Tokens over the number of devices.",
                                                           .text = "{} tokens/s a device",
                                                           .column = "tokens/s/device"}),
    model_rate<&ModelRates::model_flops_per_second_per_device>(
        {.key = "model_flops_per_second_per_device",
         .unit = FigureUnit::flops,
         .bound = FigureBound::not_negative,
         .meaning = "Operations of the model, nothing computed twice, over the number of devices.",
         .text = "{} a device"}),
    model_rate<&ModelRates::mfu>(
        {.key = "mfu",
         .unit = FigureUnit::part,
         .bound = FigureBound::part_if_predicted,
         .meaning = "Those operations over a device's peak at the training's precision.",
         .text = "MFU {}",
         .column = "MFU"}),
    prefill_rate<&PrefillRates::first_token_ns>(
        {.key = "first_token_ns",
         .unit = FigureUnit::nanoseconds,
         .bound = FigureBound::not_negative,
         .meaning = "Time until the first prompt has left the last stage; in prefill alone.",
         .text = "first token after {}",
         .comes_with = "mean_first_token_ns",
         .column = "first token"}),
    prefill_rate<&PrefillRates::mean_first_token_ns>(
        {.key = "mean_first_token_ns",
         .unit = FigureUnit::nanoseconds,
         .bound = FigureBound::not_negative,
         .meaning = "The mean of this time over all prompts, which are there at 0.",
         .text = "{} in the mean of all prompts",
         .comes_with = "first_token_ns"}),
    prefill_rate<&PrefillRates::tokens_per_second>(
        {.key = "prefill_tokens_per_second",
         .unit = FigureUnit::per_second,
         .bound = FigureBound::not_negative,
         .meaning = "Tokens of all prompts over the makespan; absent where a prompt's tokens are unknown.",
         .text = "{} tokens/s",
         .in_sweep = false}),
};

}  // namespace

std::span<const RankFigure> figures_of_ranks() { return kRankFigures; }

std::span<const RunFigure> figures_of_runs() { return kRunFigures; }

// The sums are doubles, because a sum over many ranks may overflow 64 bits.
BubbleReport bubble_of(std::span<const RankFigures> ranks, Ns makespan_ns) {
  double idle = 0;
  double busy = 0;
  Ns longest = -1;
  BubbleReport bubble;
  for (const RankFigures& rank : ranks) {
    idle += static_cast<double>(rank.report.idle_ns);
    busy += static_cast<double>(rank.report.busy_ns);
    const Ns span = rank.last_ns - rank.first_ns;
    // If several ranks have the longest span, the lowest rank is used.
    if (span <= longest) continue;
    longest = span;
    bubble.longest_span_rate =
        span == 0 ? 0 : static_cast<double>(span - rank.report.busy_ns) / static_cast<double>(span);
  }
  const double total = static_cast<double>(ranks.size()) * static_cast<double>(makespan_ns);
  bubble.idle_over_total = total > 0 ? idle / total : 0;
  bubble.idle_over_ideal = busy > 0 ? idle / busy : 0;
  return bubble;
}

}  // namespace penstock
