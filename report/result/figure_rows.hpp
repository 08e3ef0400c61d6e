#pragma once
// The figures of a result, one row for each figure. JSON and its reader, CSV, tables, headlines, sweeps, the
// invariants and docs/reference/figures.md loop over the rows. To add a figure of a rank, add a row here and
// a member to result.hpp. To add a figure of a run, add a row with its formula here and a member to
// result.hpp.

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// The unit of a figure's number.
enum class FigureUnit : std::uint8_t {
  nanoseconds,
  bytes,   // used for messages too
  memory,  // bytes, or activations if the model has no bytes (MemoryUnit)
  count,   // a number of things
  part,    // a fraction of 1
  per_second,
  flops,  // operations per second
  money,
};

/// The bound that a figure has in every result. A measurement may exceed it by the difference between its
/// clocks.
enum class FigureBound : std::uint8_t {
  not_negative,
  within_run,        // from 0 to the makespan
  up_to_makespan,    // the makespan less a time that may be measured too long
  part,              // from 0 to 1
  part_if_predicted  // not negative, and at most 1 in a prediction
};

/// The form in JSON of a figure that a result lacks.
enum class AbsentFigure : std::uint8_t {
  never,     // all results have it
  null,      // the key with null
  left_out,  // no key
};

/// A whole number of each rank.
struct RankFigure {
  /// The key in JSON and CSV.
  std::string_view key;
  /// The column in tables.
  std::string_view title;
  FigureUnit unit;
  FigureBound bound;
  /// The meaning in one sentence.
  std::string_view meaning;
  std::int64_t (*get)(const RankReport& rank);
  void (*set)(RankReport& rank, std::int64_t value);
  /// The least value that JSON may give.
  std::int64_t least = 0;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  /// `left_out` for a figure that older files lack.
  AbsentFigure absent = AbsentFigure::never;
};

/// Returns the figures of a rank in the order in which they are written.
std::span<const RankFigure> figures_of_ranks();

/// A real number of the whole run.
struct RunFigure {
  /// The object of the document: "bubble" or "throughput".
  std::string_view section{};
  std::string_view key{};
  FigureUnit unit;
  FigureBound bound;
  /// The meaning in one sentence.
  std::string_view meaning;
  std::optional<double> (*get)(const RunFigures& run) = nullptr;
  void (*set)(RunFigures& run, double value) = nullptr;
  /// The headline of tables and pages that has the figure, such as "bubble", and the figure's part of it, in
  /// which {} stands for the value.
  std::string_view headline{};
  std::string_view text{};
  AbsentFigure absent = AbsentFigure::never;
  /// The key of the figure with which this one is present or absent; empty if it is independent.
  std::string_view comes_with{};
  /// The column in the table of a sweep; empty if the table has none.
  std::string_view column{};
  /// True if the CSV and the JSON of a sweep have the figure.
  bool in_sweep = true;
};

/// Returns the figures of a run in the order in which they are written.
std::span<const RunFigure> figures_of_runs();

/// Returns the bubbles. All of them are 0 if nothing takes time.
BubbleReport bubble_of(std::span<const RankFigures> ranks, Ns makespan_ns);

}  // namespace penstock
