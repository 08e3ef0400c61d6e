// Compares a predicted with a measured result: figures one by one, and actions by their positions in the
// lists. Results of different programs are refused, so both results have the same lists. The caller divides
// the error of the makespan by causes (report/why). compare_tables.cpp writes the comparison. result_diff.cpp
// compares results of different programs. Tests: compare_test.cpp.

#include "report/compare/compare.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "report/print/units.hpp"
#include "report/result/result.hpp"
#include "report/result/result_figures.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {
namespace {

// RECVs and RESHARDs are not compared. A RECV has the same span as its SEND, and a RESHARD takes no time.
constexpr std::array kComparedKinds = {
    ActionKind::forward,   ActionKind::backward,   ActionKind::backward_input, ActionKind::backward_weight,
    ActionKind::recompute, ActionKind::step,       ActionKind::send_forward,   ActionKind::send_backward,
    ActionKind::unshard,   ActionKind::reduce_grad};

/// Returns the rules by which a run's messages are transferred, as text. Examples are "blocking, capacity
/// 2, eager below 4096 B" and "not blocking, unlimited capacity, none eager".
std::string text_of(const TransferReport& transfers) {
  const std::string capacity =
      transfers.capacity == 0 ? "unlimited capacity" : fmt::format("capacity {}", transfers.capacity);
  const std::string_view waiting = transfers.blocking == Blocking::none   ? "not blocking"
                                   : transfers.blocking == Blocking::each ? "blocking"
                                                                          : "batched";
  return fmt::format(
      "{}, {}, {}{}", waiting, capacity,
      transfers.eager_bytes == 0 ? "none eager" : fmt::format("eager below {} B", transfers.eager_bytes),
      transfers.launch_order ? ", in launch order" : "");
}

/// Returns the difference of the two values, divided by the measured value. It is infinite if the predicted
/// value is above 0 and the measured value is 0, so that it exceeds any tolerance.
double relative(double predicted, double measured) {
  // For two values of 0, the division below would give NaN.
  if (predicted == measured) return 0;
  return (predicted - measured) / measured;
}

ComparedFigure in_proportion(std::string name, double predicted, double measured,
                             std::optional<double> tolerance) {
  return {.name = std::move(name),
          .predicted = predicted,
          .measured = measured,
          .error = relative(predicted, measured),
          .tolerance = tolerance};
}

double fullest_rank(const Result& result) {
  const MemoryUnit unit = result.ranks.empty() ? MemoryUnit::bytes : result.ranks.front().memory.unit;
  return shown_amount(highest_peak_bytes(result), unit);
}

/// Returns the compared figures of the whole run. add_action_figures() adds the figures of single actions.
std::vector<ComparedFigure> figures_of(const Result& predicted, const Result& measured,
                                       const CompareTolerances& tolerances) {
  std::vector<ComparedFigure> figures;
  figures.push_back(in_proportion("makespan_ns", static_cast<double>(predicted.makespan_ns),
                                  static_cast<double>(measured.makespan_ns), tolerances.makespan));
  figures.push_back({.name = "idle_over_total",
                     .predicted = predicted.bubble.idle_over_total,
                     .measured = measured.bubble.idle_over_total,
                     .error = predicted.bubble.idle_over_total - measured.bubble.idle_over_total,
                     .tolerance = tolerances.bubble});
  figures.push_back(in_proportion("samples_per_second", predicted.throughput.samples_per_second,
                                  measured.throughput.samples_per_second, tolerances.makespan));
  // Some backends measure no memory, so this figure may be missing.
  if (fullest_rank(measured) > 0) {
    figures.push_back(
        in_proportion("peak_bytes", fullest_rank(predicted), fullest_rank(measured), tolerances.memory));
  }
  return figures;
}

Ns length(const Span& span) { return span.end_ns - span.start_ns; }

std::vector<RankComparison> ranks_of(const Result& predicted, const Result& measured) {
  std::vector<RankComparison> ranks;
  ranks.reserve(measured.ranks.size());
  for (std::size_t rank = 0; rank < measured.ranks.size(); ++rank) {
    ranks.push_back({.rank = measured.ranks[rank].rank,
                     .predicted_busy_ns = predicted.ranks[rank].busy_ns,
                     .measured_busy_ns = measured.ranks[rank].busy_ns,
                     .predicted_peak_bytes = predicted.ranks[rank].memory.peak_bytes,
                     .measured_peak_bytes = measured.ranks[rank].memory.peak_bytes,
                     .memory_unit = measured.ranks[rank].memory.unit});
  }
  return ranks;
}

// --- actions --------------------------------------------------------------------------------------

/// Returns true if both timelines have the same actions in the same order. In this case the i-th spans of
/// both describe the same action.
bool have_same_actions(const Timeline& a, const Timeline& b) {
  return a.spans.size() == b.spans.size() &&
         std::ranges::equal(a.spans, b.spans, [](const Span& x, const Span& y) {
           return x.rank == y.rank && to_text(x.action) == to_text(y.action);
         });
}

/// Returns the timing errors of one action kind over all ranks. The means are rounded down to whole
/// nanoseconds.
ActionErrors errors_of(ActionKind kind, const Timeline& predicted, const Timeline& measured) {
  // The start value -1 is less than any error. An action is therefore named even if all errors are 0.
  ActionErrors errors{.kind = kind, .worst_start_ns = -1, .worst_action = {}};
  for (std::size_t i = 0; i < predicted.spans.size(); ++i) {
    const Span& expected = predicted.spans[i];
    if (expected.action.kind != kind) continue;
    const Span& actual = measured.spans[i];
    const Ns off = std::abs(expected.start_ns - actual.start_ns);
    ++errors.count;
    errors.mean_start_ns += off;
    errors.predicted_duration_ns += length(expected);
    errors.measured_duration_ns += length(actual);
    if (off <= errors.worst_start_ns) continue;
    errors.worst_start_ns = off;
    errors.worst_action = fmt::format("rank {}: {}", expected.rank, to_text(expected.action));
  }
  if (errors.count == 0) return errors;
  errors.mean_start_ns /= errors.count;
  errors.predicted_duration_ns /= errors.count;
  errors.measured_duration_ns /= errors.count;
  return errors;
}

/// Adds the mean timing errors over all compute actions except STEP, which usually takes no time. The
/// duration error is the sum of all errors divided by the sum of all durations. Short actions therefore
/// have little influence.
void add_action_figures(std::vector<ComparedFigure>& figures, const Timeline& predicted,
                        const Timeline& measured, const CompareTolerances& tolerances) {
  double start_error = 0;
  double duration_error = 0;
  double duration = 0;
  double count = 0;
  for (std::size_t i = 0; i < predicted.spans.size(); ++i) {
    const Span& expected = predicted.spans[i];
    const Span& actual = measured.spans[i];
    if (!has_weight_version(expected.action.kind)) continue;
    start_error += static_cast<double>(std::abs(expected.start_ns - actual.start_ns));
    duration_error += static_cast<double>(std::abs(length(expected) - length(actual)));
    duration += static_cast<double>(length(actual));
    count += 1;
  }
  if (count == 0 || measured.makespan_ns == 0) return;
  const auto add = [&](const char* name, double error, std::optional<double> tolerance) {
    figures.push_back({.name = name, .error = error, .tolerance = tolerance});
  };
  add("action_start", start_error / count / static_cast<double>(measured.makespan_ns), tolerances.start);
  add("action_duration", duration > 0 ? duration_error / duration : 0, tolerances.duration);
}

/// Returns an error if the timeline of a result does not have as many ranks as the result. This can happen if
/// a timeline from a file lacks ranks. Returns nothing if the numbers agree or the timeline is empty.
std::optional<CompareError> fault_of_timeline(const Result& result) {
  const auto ranks = std::ssize(result.ranks);
  if (result.timeline.spans.empty() || result.timeline.rank_count == ranks) return std::nullopt;
  return CompareError{fmt::format("the {} result has a timeline of {} and figures of {}: write it again",
                                  to_text(result.kind), format_count(result.timeline.rank_count, "rank"),
                                  ranks)};
}

/// Returns the reason why two results cannot be compared, or nothing if they can. The kinds of the results
/// are checked first, then their programs, then their transfer rules. The message therefore names the
/// mistake that the user must correct first.
std::optional<CompareError> why_not_comparable(const Result& predicted, const Result& measured) {
  const bool measured_first = predicted.kind == ResultKind::measured;
  const bool predicted_second = measured.kind == ResultKind::predicted;
  if (measured_first && predicted_second) {
    return CompareError{
        "the first result is a measurement and the second a prediction: give the prediction first", true};
  }
  if (measured_first) {
    return CompareError{
        "the first result is a measurement, too: give a prediction first, as `penstock simulate --timeline "
        "-o FILE.json` writes it",
        true};
  }
  if (predicted_second) {
    return CompareError{
        "the second result is a prediction, too: give a measurement second, as `penstock run --timeline -o "
        "FILE.json` writes it; `penstock diff` compares two predictions",
        true};
  }
  if (predicted.program.digest != measured.program.digest) {
    return CompareError{
        fmt::format("the results are of different programs: {} (digest {:.12}) and {} (digest {:.12})",
                    predicted.program.schedule, predicted.program.digest, measured.program.schedule,
                    measured.program.digest)};
  }
  if (predicted.channel != measured.channel) {
    return CompareError{
        fmt::format("the results are of different channel models: {} and {}; predict again with --channel {}",
                    predicted.channel, measured.channel, measured.channel)};
  }
  if (predicted.transfers != measured.transfers) {
    return CompareError{fmt::format(
        "the results have different rules of transfers: {} in the prediction, {} in the measurement; predict "
        "again with the blocking, capacity, eager and launch_order that were measured",
        text_of(predicted.transfers), text_of(measured.transfers))};
  }
  if (predicted.link_sharing == LinkSharing::counted && measured.link_sharing == LinkSharing::left_out) {
    return CompareError{
        "several messages use a link at once: they share its bandwidth in the prediction, but in the "
        "measurement each has the whole bandwidth; predict without sharing: `penstock simulate --engine "
        "critical-path`"};
  }
  if (predicted.ranks.size() != measured.ranks.size()) {
    return CompareError{fmt::format("the results have {} and {} ranks, although the digest is the same",
                                    predicted.ranks.size(), measured.ranks.size())};
  }
  for (const Result* result : {&predicted, &measured}) {
    if (auto fault = fault_of_timeline(*result)) return fault;
  }
  return std::nullopt;
}

/// Returns notes on the limits of the measurement: about its memory figures, and about the sharing of links,
/// which it ignores.
std::vector<std::string> notes_of(const Result& measured) {
  std::vector<std::string> notes;
  if (measured.link_sharing == LinkSharing::left_out) {
    notes.emplace_back(
        "several messages use a link at once; prediction and measurement both ignore that they share its "
        "bandwidth");
  }
  std::ranges::copy_if(measured.notes, std::back_inserter(notes),
                       [](const std::string& note) { return note.starts_with("memory: "); });
  return notes;
}

/// Returns the name of a run, such as "1f1b, K = 4, M = 8".
std::string name_of(const ProgramReport& program) {
  return fmt::format("{}, K = {}, M = {}", program.schedule, pipeline_size(program), program.microbatches);
}

/// Returns the time per sample in nanoseconds. A result without a number of samples counts as one sample.
double ns_per_sample(const Result& result) {
  const double samples = result.throughput.samples;
  return static_cast<double>(result.makespan_ns) / (samples > 0 ? samples : 1);
}

}  // namespace

bool ComparedFigure::passed() const { return !tolerance || std::abs(error) <= *tolerance; }

bool Comparison::passed() const { return std::ranges::all_of(figures, &ComparedFigure::passed); }

tl::expected<Comparison, CompareError> compare_results(const Result& predicted, const Result& measured,
                                                       const CompareTolerances& tolerances) {
  if (auto why = why_not_comparable(predicted, measured)) return tl::unexpected(*std::move(why));
  Comparison comparison{.name = name_of(measured.program),
                        .schedule = measured.program.schedule,
                        .digest = measured.program.digest,
                        .channel = measured.channel,
                        .figures = figures_of(predicted, measured, tolerances),
                        .error_ns = predicted.makespan_ns - measured.makespan_ns,
                        .ranks = ranks_of(predicted, measured),
                        .actions = {},
                        .notes = notes_of(measured)};
  if (predicted.timeline.spans.empty() || measured.timeline.spans.empty()) return comparison;
  if (!have_same_actions(predicted.timeline, measured.timeline)) {
    return tl::unexpected(CompareError{"the timelines are not of the same actions, although the digest is"});
  }
  add_action_figures(comparison.figures, predicted.timeline, measured.timeline, tolerances);
  for (const ActionKind kind : kComparedKinds) {
    ActionErrors errors = errors_of(kind, predicted.timeline, measured.timeline);
    if (errors.count > 0) comparison.actions.push_back(std::move(errors));
  }
  return comparison;
}

Ranking ranking_of(const std::vector<ResultPair>& pairs, double threshold) {
  Ranking ranking{.threshold = threshold, .runs = {}, .wrong = {}};
  for (const ResultPair& pair : pairs) {
    ranking.runs.push_back({.name = name_of(pair.measured.program),
                            .predicted_ns_per_sample = ns_per_sample(pair.predicted),
                            .measured_ns_per_sample = ns_per_sample(pair.measured)});
  }
  // The runs are sorted by measured time, so run `a` was at least as fast as run `b` in the measurement.
  std::ranges::stable_sort(ranking.runs, {}, &RankedRun::measured_ns_per_sample);
  for (std::size_t a = 0; a < ranking.runs.size(); ++a) {
    for (std::size_t b = a + 1; b < ranking.runs.size(); ++b) {
      const RankedRun& faster = ranking.runs[a];
      const RankedRun& slower = ranking.runs[b];
      const double gap = slower.measured_ns_per_sample / faster.measured_ns_per_sample - 1;
      // The gap is too small to decide which run is faster, or it is not a number.
      if (!(gap > threshold)) continue;
      ++ranking.counted_pairs;
      // Equal predictions count as wrong, because they do not identify the faster run.
      if (faster.predicted_ns_per_sample < slower.predicted_ns_per_sample) continue;
      ranking.wrong.push_back(
          {.faster = faster.name,
           .slower = slower.name,
           .measured_gap = gap,
           .predicted_gap = slower.predicted_ns_per_sample / faster.predicted_ns_per_sample - 1});
    }
  }
  return ranking;
}

}  // namespace penstock
