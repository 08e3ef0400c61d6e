// The rows bind each figure to its member with a pointer, so that no reader or writer names a member:
//
//   rank_figure<&RankReport::busy_ns>(..)    get: rank.busy_ns    set: rank.busy_ns = value
//
// tests/report/figure_pages_test.cpp holds the page that is made of the rows.

#include "report/result/figure_rows.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "report/result/result.hpp"

namespace penstock {
namespace {

/// The columns of a row, without its member.
struct RankText {
  std::string_view key;
  std::string_view title;
  FigureUnit unit;
  FigureBound bound;
  std::string_view meaning;
};

/// Returns the row of the member that the path `members` reaches, such as <&RankReport::memory,
/// &RankMemory::peak_bytes>.
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
      // The clocks of devices may differ, so that a rank's measured idle time is slightly below 0.
      .least = text.bound == FigureBound::up_to_makespan ? std::numeric_limits<std::int64_t>::min() : 0,
      .most = std::numeric_limits<Member>::max()};
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

/// The columns of a row, without its member.
struct RunText {
  std::string_view section;
  std::string_view key;
  FigureUnit unit;
  FigureBound bound;
  std::string_view meaning;
  AbsentFigure absent = AbsentFigure::never;
};

template <auto part, auto member>
consteval RunFigure run_figure(const RunText& text) {
  return {.section = text.section,
          .key = text.key,
          .unit = text.unit,
          .bound = text.bound,
          .meaning = text.meaning,
          .get = [](const Result& result) { return std::optional<double>(result.*part.*member); },
          .set = [](Result& result, double value) { result.*part.*member = value; },
          .absent = text.absent};
}

/// Returns the row of a rate that a result has if the model's size is known. All four such rates come with
/// `mfu`.
template <auto member>
consteval RunFigure model_rate(std::string_view key, FigureUnit unit, FigureBound bound,
                               std::string_view meaning) {
  return {.section = "throughput",
          .key = key,
          .unit = unit,
          .bound = bound,
          .meaning = meaning,
          .get =
              [](const Result& result) {
                const auto& rates = result.throughput.model;
                return rates ? std::optional<double>((*rates).*member) : std::nullopt;
              },
          .set =
              [](Result& result, double value) {
                auto& rates = result.throughput.model;
                if (!rates) rates.emplace();
                (*rates).*member = value;
              },
          .absent = AbsentFigure::left_out,
          .comes_with = "mfu"};
}

constexpr std::array kRunFigures = {
    run_figure<&Result::bubble, &BubbleReport::idle_over_total>(
        {.section = "bubble",
         .key = "idle_over_total",
         .unit = FigureUnit::part,
         .bound = FigureBound::part,
         .meaning = "The sum of idle times over ranks times makespan."}),
    run_figure<&Result::bubble, &BubbleReport::idle_over_ideal>(
        {.section = "bubble",
         .key = "idle_over_ideal",
         .unit = FigureUnit::part,
         .bound = FigureBound::not_negative,
         .meaning = "The sum of idle times over the sum of busy times; 0 if nothing is busy."}),
    run_figure<&Result::bubble, &BubbleReport::longest_span_rate>(
        {.section = "bubble",
         .key = "longest_span_rate",
         .unit = FigureUnit::part,
         .bound = FigureBound::part,
         .meaning = "The idle part of the longest span from a rank's first to its last compute action."}),
    run_figure<&Result::throughput, &ThroughputReport::samples_per_second>(
        {.section = "throughput",
         .key = "samples_per_second",
         .unit = FigureUnit::per_second,
         .bound = FigureBound::not_negative,
         .meaning = "Samples over the makespan; 0 if the makespan is 0."}),
    run_figure<&Result::throughput, &ThroughputReport::steady_samples_per_second>(
        {.section = "throughput",
         .key = "steady_samples_per_second",
         .unit = FigureUnit::per_second,
         .bound = FigureBound::not_negative,
         .meaning = "Samples per period of the endlessly repeated program; absent if it has no period.",
         .absent = AbsentFigure::null}),
    run_figure<&Result::throughput, &ThroughputReport::samples>(
        {.section = "throughput",
         .key = "samples",
         .unit = FigureUnit::count,
         .bound = FigureBound::not_negative,
         .meaning = "Microbatches times their size times iterations."}),
    run_figure<&Result::throughput, &ThroughputReport::samples_per_update>(
        {.section = "throughput",
         .key = "samples_per_update",
         .unit = FigureUnit::count,
         .bound = FigureBound::not_negative,
         .meaning = "Samples that one STEP of the input stage covers."}),
    run_figure<&Result::throughput, &ThroughputReport::cost_per_million_samples>(
        {.section = "throughput",
         .key = "cost_per_million_samples",
         .unit = FigureUnit::money,
         .bound = FigureBound::not_negative,
         .meaning = "Cost at the steady rate, or else at that of the run; absent if devices have no price.",
         .absent = AbsentFigure::left_out}),
    model_rate<&ModelRates::tokens_per_second>("tokens_per_second", FigureUnit::per_second,
                                               FigureBound::not_negative, "Tokens of all copies."),
    model_rate<&ModelRates::tokens_per_second_per_device>("tokens_per_second_per_device",
                                                          FigureUnit::per_second, FigureBound::not_negative,
                                                          "Tokens over the number of devices."),
    model_rate<&ModelRates::model_flops_per_second_per_device>(
        "model_flops_per_second_per_device", FigureUnit::per_second, FigureBound::not_negative,
        "Operations of the model, nothing computed twice, over the number of devices."),
    model_rate<&ModelRates::mfu>("mfu", FigureUnit::part, FigureBound::part_if_predicted,
                                 "Those operations over a device's peak at the training's precision."),
};

}  // namespace

std::span<const RankFigure> figures_of_ranks() { return kRankFigures; }

std::span<const RunFigure> figures_of_runs() { return kRunFigures; }

}  // namespace penstock
