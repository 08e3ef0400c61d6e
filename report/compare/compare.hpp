#pragma once
// Compares predictions with measurements of the same programs: how large their errors are, in which figures
// and on which ranks, and if they rank the schedules correctly. compare_html.hpp draws a comparison.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "report/print/units.hpp"
#include "report/result/result.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// The largest errors that pass. A tolerance that is absent does not fail; its error is only reported.
struct CompareTolerances {
  /// The tolerance of the makespan and of samples per second, as a fraction of the measured value.
  double makespan = 0.05;
  /// The tolerance of idle_over_total, as an absolute difference.
  double bubble = 0.05;
  /// The tolerance of the peak of the fullest rank, as a fraction of the measured peak.
  std::optional<double> memory{};
  /// The tolerance of the mean start error of compute actions, as a fraction of the measured makespan.
  std::optional<double> start{};
  /// The tolerance of the mean duration error of compute actions, as a fraction of their measured time.
  std::optional<double> duration{};
};

/// A figure of both results.
struct ComparedFigure {
  /// The key of the figure, such as "makespan_ns" or "idle_over_total".
  std::string name;
  double predicted = 0;
  double measured = 0;
  /// The value predicted - measured; for times, rates and bytes as a fraction of the measured figure
  double error = 0;
  /// The largest |error| that passes.
  std::optional<double> tolerance;
  bool passed() const;

  friend bool operator==(const ComparedFigure&, const ComparedFigure&) = default;
};

/// The errors of the actions of one kind.
struct ActionErrors {
  ActionKind kind = ActionKind::forward;
  std::int64_t count = 0;
  /// The mean of |predicted - measured| over the starts.
  Ns mean_start_ns = 0;
  Ns worst_start_ns = 0;
  /// The action with the largest error of its start: "rank 2: 2B5".
  std::string worst_action;
  /// The mean predicted duration.
  Ns predicted_duration_ns = 0;
  Ns measured_duration_ns = 0;

  friend bool operator==(const ActionErrors&, const ActionErrors&) = default;
};

/// The parts of an error of the makespan, predicted - measured. Each moment of a rank belongs to one part, so
/// that the parts add up to the error.
struct ErrorParts {
  Ns makespan_ns = 0;
  /// The difference of the time in which a compute action runs.
  Ns compute_ns = 0;
  /// The difference of the time in which the rank is idle while a message of its next action is under way.
  Ns transfer_ns = 0;
  /// The rank is idle although its last action has ended and all messages of the next one have arrived: the
  /// runtime's own time. Predictions have none, because their actions start at once. A calibrated cost file
  /// includes it in the durations, so that the errors of compute and launch have the same size and opposite
  /// signs. It is absent without timelines, and then part of waiting.
  std::optional<Ns> launch_ns{};
  /// The difference of the time in which the rank waits for other ranks, or has finished.
  Ns waiting_ns = 0;

  friend bool operator==(const ErrorParts&, const ErrorParts&) = default;
};

/// One rank of both results.
struct RankComparison {
  std::int32_t rank = 0;
  /// The parts of this rank alone.
  ErrorParts parts{};
  Bytes predicted_peak_bytes = 0;
  /// The measured peak; 0 if the measurement has none.
  Bytes measured_peak_bytes = 0;
  /// The unit of both peaks.
  MemoryUnit memory_unit = MemoryUnit::bytes;

  friend bool operator==(const RankComparison&, const RankComparison&) = default;
};

/// The comparison of a prediction with a measurement.
struct Comparison {
  /// A name such as "1f1b, K = 4, M = 8".
  std::string name;
  std::string schedule;
  std::string digest;
  std::string channel;
  std::vector<ComparedFigure> figures;
  /// The means over the ranks.
  ErrorParts parts;
  std::vector<RankComparison> ranks;
  /// The errors by kind of action; empty if a result has no timeline.
  std::vector<ActionErrors> actions;
  /// Facts about the measurement that a reader must know.
  std::vector<std::string> notes;
  bool passed() const;

  friend bool operator==(const Comparison&, const Comparison&) = default;
};

/// The reason why two results cannot be compared.
struct CompareError {
  std::string message;
  /// True if a measurement is in the prediction's place or the other way round
  bool wrong_kind = false;
};

/// Compares two results. Errors, because a comparison would mean nothing: different programs (the digest
/// includes iterations), different channel models or rules of transfers, shared against unshared links,
/// results that are not a prediction and a measurement, or an incomplete timeline.
tl::expected<Comparison, CompareError> compare_results(const Result& predicted, const Result& measured,
                                                       const CompareTolerances& tolerances);

/// Returns the comparison for a terminal. `width` limits the tables' lines; 0 means no limit.
std::string comparison_to_table(const Comparison& comparison, std::size_t width = 0);
/// Returns one JSON object: schema_version, passed, schedule, digest, channel, figures, parts, ranks,
/// actions, notes.
std::string comparison_to_json(const Comparison& comparison);

// --- several schedules ----------------------------------------------------------------------------

/// One run of several that are ranked.
struct RankedRun {
  /// The schedule, with K and M if the runs of a schedule differ in them.
  std::string name;
  double predicted_ns_per_sample = 0;
  double measured_ns_per_sample = 0;

  friend bool operator==(const RankedRun&, const RankedRun&) = default;
};

/// A wrong pair of a ranking: `faster` was measured to be faster than `slower`, but not predicted to be.
struct WrongRank {
  std::string faster;
  std::string slower;
  /// The time of `slower` over the time of `faster`, minus 1.
  double measured_gap = 0;
  /// The predicted time of `slower` over that of `faster`, minus 1; at most 0.
  double predicted_gap = 0;

  friend bool operator==(const WrongRank&, const WrongRank&) = default;
};

/// The order of several runs by speed, predicted and measured.
struct Ranking {
  /// The measured gap up to which a pair does not count.
  double threshold = 0.03;
  /// The runs, the fastest measured first.
  std::vector<RankedRun> runs;
  std::vector<WrongRank> wrong;
  /// The pairs of runs whose measured gap is above the threshold.
  std::int64_t counted_pairs = 0;
  bool passed() const { return wrong.empty(); }

  friend bool operator==(const Ranking&, const Ranking&) = default;
};

/// A prediction and the measurement of the same program.
struct ResultPair {
  const Result& predicted;
  const Result& measured;
};

/// Returns the ranking by time for each sample, so that runs with different M can be ranked too.
Ranking ranking_of(const std::vector<ResultPair>& pairs, double threshold);

/// Returns a line for each comparison, then the ranking.
std::string comparisons_to_table(const std::vector<Comparison>& comparisons, const Ranking& ranking,
                                 std::size_t width = 0);
/// Returns JSON: {schema_version, passed, comparisons: [...], ranking: {threshold, runs, wrong}}.
std::string comparisons_to_json(const std::vector<Comparison>& comparisons, const Ranking& ranking);

}  // namespace penstock
