#pragma once
// Predictions held against measurements of the same programs: how wrong they are, in what, and where; and
// whether they rank the schedules right. compare_html.hpp draws one of them.

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

/// How wrong a prediction may be. Absent: reported only.
struct CompareTolerances {
  double makespan = 0.05;          ///< fraction of the measured time; also of samples per second
  double bubble = 0.05;            ///< absolute, on idle_over_total
  std::optional<double> memory{};  ///< fraction of the measured peak of the fullest rank
  std::optional<double> start{};   ///< mean over all compute actions, as a fraction of the measured makespan
  std::optional<double> duration{};  ///< mean over all compute actions, as a fraction of their measured time
};

/// One figure of both results.
struct ComparedFigure {
  std::string name;  ///< "makespan_ns", "idle_over_total", ...
  double predicted = 0;
  double measured = 0;
  double error = 0;  ///< predicted - measured; of times, rates and bytes as a fraction of the measured figure
  std::optional<double> tolerance;  ///< largest |error| that passes
  bool passed() const;

  friend bool operator==(const ComparedFigure&, const ComparedFigure&) = default;
};

/// How far the actions of one kind are off.
struct ActionErrors {
  ActionKind kind = ActionKind::forward;
  std::int64_t count = 0;
  Ns mean_start_ns = 0;  ///< of |predicted - measured|
  Ns worst_start_ns = 0;
  std::string worst_action;      ///< "rank 2: 2B5": where the start is most wrong
  Ns predicted_duration_ns = 0;  ///< means
  Ns measured_duration_ns = 0;

  friend bool operator==(const ActionErrors&, const ActionErrors&) = default;
};

/// Where an error of the makespan comes from: predicted - measured, in parts that add up to it. Every moment
/// of a rank is in one of them:
struct ErrorParts {
  Ns makespan_ns = 0;
  Ns compute_ns = 0;   ///< a compute action runs
  Ns transfer_ns = 0;  ///< the rank is idle while a message that its next action waits for is on its way
  /// The rank is idle although its last action has ended and all that the next one waits for has arrived:
  /// the runtime's own time. Predictions start at once and have none; a calibrated cost file has it in the
  /// durations, so that compute and launch are off by the same in opposite directions. Absent without
  /// timelines; then it is part of waiting.
  std::optional<Ns> launch_ns{};
  Ns waiting_ns = 0;  ///< the rank waits for other ranks, or has finished

  friend bool operator==(const ErrorParts&, const ErrorParts&) = default;
};

/// One rank of both results.
struct RankComparison {
  std::int32_t rank = 0;
  ErrorParts parts{};  ///< of this rank alone
  Bytes predicted_peak_bytes = 0;
  Bytes measured_peak_bytes = 0;               ///< 0: the measurement has none
  MemoryUnit memory_unit = MemoryUnit::bytes;  ///< of both peaks

  friend bool operator==(const RankComparison&, const RankComparison&) = default;
};

struct Comparison {
  std::string name;  ///< "1f1b, K = 4, M = 8"
  std::string schedule;
  std::string digest;
  std::string channel;
  std::vector<ComparedFigure> figures;
  ErrorParts parts;  ///< means over the ranks
  std::vector<RankComparison> ranks;
  std::vector<ActionErrors> actions;  ///< empty where a result has no timeline
  std::vector<std::string> notes;     ///< what a reader must know of the measurement
  bool passed() const;

  friend bool operator==(const Comparison&, const Comparison&) = default;
};

/// Why two results cannot be compared.
struct CompareError {
  std::string message;
  bool wrong_kind = false;  ///< a measurement in the prediction's place, or the other way round
};

/// Compares two results. Errors, because the figures would say nothing: another program (whose digest counts
/// iterations, too), another channel model or other rules of transfers, shared links against unshared ones,
/// results that are not a prediction and a measurement, or a timeline that is neither whole nor empty.
tl::expected<Comparison, CompareError> compare_results(const Result& predicted, const Result& measured,
                                                       const CompareTolerances& tolerances);

/// For a terminal; `width` is that of the tables' lines, 0: any.
std::string comparison_to_table(const Comparison& comparison, std::size_t width = 0);
/// One JSON object: schema_version, passed, schedule, digest, channel, figures, parts, ranks, actions, notes.
std::string comparison_to_json(const Comparison& comparison);

// --- several schedules ----------------------------------------------------------------------------

/// One run among several that are ranked.
struct RankedRun {
  std::string name;  ///< the schedule, with K and M where schedules have several
  double predicted_ns_per_sample = 0;
  double measured_ns_per_sample = 0;

  friend bool operator==(const RankedRun&, const RankedRun&) = default;
};

/// `faster` was measured to be faster than `slower`, but not predicted to be.
struct WrongRank {
  std::string faster;
  std::string slower;
  double measured_gap = 0;   ///< slower over faster, minus 1
  double predicted_gap = 0;  ///< <= 0

  friend bool operator==(const WrongRank&, const WrongRank&) = default;
};

/// Which of several schedules is the fastest, predicted and measured.
struct Ranking {
  double threshold = 0.03;      ///< measured gaps up to this do not count
  std::vector<RankedRun> runs;  ///< fastest measured first
  std::vector<WrongRank> wrong;
  std::int64_t counted_pairs = 0;  ///< pairs of runs whose measured gap is over the threshold
  bool passed() const { return wrong.empty(); }

  friend bool operator==(const Ranking&, const Ranking&) = default;
};

/// One prediction and the measurement of the same program.
struct ResultPair {
  const Result& predicted;
  const Result& measured;
};

/// By time a sample, so that runs of different M can be ranked, too.
Ranking ranking_of(const std::vector<ResultPair>& pairs, double threshold);

/// The comparisons one after the other, a line each, then the ranking.
std::string comparisons_to_table(const std::vector<Comparison>& comparisons, const Ranking& ranking,
                                 std::size_t width = 0);
/// {schema_version, passed, comparisons: [...], ranking: {threshold, runs, wrong}}.
std::string comparisons_to_json(const std::vector<Comparison>& comparisons, const Ranking& ranking);

}  // namespace penstock
