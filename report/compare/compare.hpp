#pragma once
// Compares predictions with measurements of the same programs. It shows how large the errors are, in which
// figures and on which ranks. It also checks whether the predictions rank the schedules in the right order.
// html_report.hpp draws a comparison.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "report/result/result.hpp"
#include "report/why/explanation.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// The largest errors of a prediction that are accepted. If a tolerance is absent, its error is reported
/// but never leads to a failure.
struct CompareTolerances {
  /// The tolerance of the makespan and of samples per second, as a fraction of the measured value.
  double makespan = 0.05;
  /// The tolerance of idle_over_total: the largest accepted difference between prediction and measurement.
  double bubble = 0.05;
  /// The tolerance of the peak memory of the rank with the highest peak, as a fraction of the measured
  /// peak.
  std::optional<double> memory{};
  /// The tolerance of the mean error of the start times of compute actions, as a fraction of the measured
  /// makespan.
  std::optional<double> start{};
  /// The tolerance of the mean error of the durations of compute actions, as a fraction of their measured
  /// time.
  std::optional<double> duration{};
};

/// A figure that both the prediction and the measurement have, with its two values.
struct ComparedFigure {
  /// The key of the figure, such as "makespan_ns" or "idle_over_total".
  std::string name;
  double predicted = 0;
  double measured = 0;
  /// The error: the predicted value minus the measured value. For times, rates and bytes, this difference
  /// is divided by the measured value.
  double error = 0;
  /// The largest absolute value of `error` that is accepted. If it is absent, every error is accepted.
  std::optional<double> tolerance;
  bool passed() const;

  friend bool operator==(const ComparedFigure&, const ComparedFigure&) = default;
};

/// The errors of all actions of one kind, such as all forward passes.
struct ActionErrors {
  ActionKind kind = ActionKind::forward;
  std::int64_t count = 0;
  /// The mean of |predicted start - measured start| over the actions of this kind, in ns.
  Ns mean_start_ns = 0;
  Ns worst_start_ns = 0;
  /// The action whose start has the largest error, such as "rank 2: 2B5".
  std::string worst_action;
  /// The mean predicted duration of the actions of this kind, in ns.
  Ns predicted_duration_ns = 0;
  Ns measured_duration_ns = 0;

  friend bool operator==(const ActionErrors&, const ActionErrors&) = default;
};

/// The comparison of one rank's figures in the prediction and in the measurement.
struct RankComparison {
  std::int32_t rank = 0;
  Ns predicted_busy_ns = 0;  ///< time in which the rank computes
  Ns measured_busy_ns = 0;
  Bytes predicted_peak_bytes = 0;
  /// The measured peak memory of the rank. It is 0 if the measurement has no memory figures.
  Bytes measured_peak_bytes = 0;
  /// The unit of the predicted and the measured peak memory.
  MemoryUnit memory_unit = MemoryUnit::bytes;

  friend bool operator==(const RankComparison&, const RankComparison&) = default;
};

/// The comparison of a prediction with a measurement.
struct Comparison {
  /// A name of the run, such as "1f1b, K = 4, M = 8".
  std::string name;
  std::string schedule;
  std::string digest;
  std::string channel;
  std::vector<ComparedFigure> figures;
  Ns error_ns = 0;  ///< error of the makespan, predicted minus measured
  /// The causes of time that differ between the two results, as changed lines of their bills. A bill divides
  /// a makespan by causes (report/why). In each line, the measured time comes first. The differences add up
  /// to the error of the makespan. The list is empty if a result has no timeline. compare_results() leaves
  /// the list empty, and its caller fills it.
  std::vector<BillChange> causes{};
  std::vector<RankComparison> ranks;
  /// The errors for each kind of action. The list is empty if a result has no timeline.
  std::vector<ActionErrors> actions;
  /// Notes about the measurement that readers need to understand the errors.
  std::vector<std::string> notes;
  bool passed() const;

  friend bool operator==(const Comparison&, const Comparison&) = default;
};

/// The reason why two results cannot be compared.
struct CompareError {
  std::string message;
  /// True if a result is of the wrong kind, for example if a measurement is given in place of the
  /// prediction.
  bool wrong_kind = false;
};

/// Compares a prediction with a measurement of the same program. Returns an error if their kinds, programs
/// (digests), channel models, transfer rules or link sharing do not match. Also returns an error if a
/// timeline is incomplete.
tl::expected<Comparison, CompareError> compare_results(const Result& predicted, const Result& measured,
                                                       const CompareTolerances& tolerances);

/// Returns the comparison as text for a terminal. `width` is the longest table line in characters; 0 means no
/// limit.
std::string comparison_to_table(const Comparison& comparison, std::size_t width = 0);
/// Returns the comparison as one JSON object. Its keys are schema_version, passed, schedule, digest, channel,
/// figures, error_ns, causes, ranks, actions and notes.
std::string comparison_to_json(const Comparison& comparison);

// --- several schedules ----------------------------------------------------------------------------

/// One run in a ranking of several runs.
struct RankedRun {
  /// The name of the run: its schedule, K and M.
  std::string name;
  double predicted_ns_per_sample = 0;
  double measured_ns_per_sample = 0;

  friend bool operator==(const RankedRun&, const RankedRun&) = default;
};

/// A pair of runs in the wrong order: the run `faster` was faster in the measurement, but not in the
/// prediction.
struct WrongRank {
  std::string faster;
  std::string slower;
  /// The measured time of the run `slower` divided by the measured time of the run `faster`, minus 1.
  double measured_gap = 0;
  /// The predicted time of the run `slower` divided by the predicted time of the run `faster`, minus 1. It
  /// is never above 0.
  double predicted_gap = 0;

  friend bool operator==(const WrongRank&, const WrongRank&) = default;
};

/// The ranking of several runs by speed, as predicted and as measured.
struct Ranking {
  /// The largest measured gap at which two runs count as equally fast. For such a pair, the predicted order
  /// is not checked.
  double threshold = 0.03;
  /// The runs, ordered from the fastest to the slowest measured time.
  std::vector<RankedRun> runs;
  std::vector<WrongRank> wrong;
  /// The number of pairs of runs whose measured gap is above the threshold.
  std::int64_t counted_pairs = 0;
  bool passed() const { return wrong.empty(); }

  friend bool operator==(const Ranking&, const Ranking&) = default;
};

/// A prediction and the measurement of the same program.
struct ResultPair {
  const Result& predicted;
  const Result& measured;
};

/// Returns the ranking of the runs in `pairs`. It compares times per sample, so that runs with different M
/// can be compared.
Ranking ranking_of(const std::vector<ResultPair>& pairs, double threshold);

/// Returns text with one line for each comparison, followed by the ranking.
std::string comparisons_to_table(const std::vector<Comparison>& comparisons, const Ranking& ranking,
                                 std::size_t width = 0);
/// Returns one JSON object: {schema_version, passed, comparisons: [...], ranking: {threshold, runs, wrong}}.
std::string comparisons_to_json(const std::vector<Comparison>& comparisons, const Ranking& ranking);

// Writes the tables and sentences of comparisons. comparison_to_table() and result_html.cpp use these
// functions.

/// Returns a table with one row for each figure: both values, the error, the tolerance, and whether the
/// error is accepted.
Table compared_figures(const Comparison& comparison);
/// Returns a table with one row per rank: its busy time, and its memory if that was measured.
Table rank_errors(const Comparison& comparison);
/// Returns a table with one row per kind of action: its durations and start errors.
Table action_errors(const Comparison& comparison);
/// Returns a table with one row for each cause of time that differs, such as work or imbalance. A row shows
/// the mean time of a rank for the cause in both results, and its error. The errors add up to that of the
/// makespan.
Table cause_errors(const Comparison& comparison);
/// Returns a sentence about the error of the makespan, such as "error of the iteration time +1 ms".
std::string error_sentence(const Comparison& comparison);

/// Returns a table with one row per comparison.
Table comparison_overview(const std::vector<Comparison>& comparisons);
/// Returns a table with one row per run. The run with the fastest measurement comes first.
Table ranking_rows(const Ranking& ranking);
/// Returns a sentence that counts the pairs in the right order, such as "ranked right: 3 of 3 pairs ...".
std::string ranking_sentence(const Ranking& ranking);
/// Returns one sentence for each wrong pair, such as "gpipe, K = 4, M = 8 was measured to be faster than ...
/// by ..., and predicted to be slower by ...".
std::vector<std::string> wrong_ranks(const Ranking& ranking);

/// Returns a duration with its sign: "+1.5 ms", "-20 us".
std::string signed_duration(Ns duration_ns);
/// Returns true if the figure has a predicted and a measured value. A figure about single actions has only
/// an error.
bool has_values(const ComparedFigure& figure);

}  // namespace penstock
