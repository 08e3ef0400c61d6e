#pragma once
// The table of the figures of a result, with one row for each figure. JSON, CSV, tables, headlines, sweeps,
// the invariants and docs/reference/figures.md are made from the rows. To add a figure, add a row
// here and a field to result.hpp. For a figure of the run, also add its formula here.

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
  bytes,   // also for messages
  memory,  // bytes, or activations if the sizes are unknown (MemoryUnit)
  count,   // a number of things
  part,    // a fraction: 0.25 means 25 %
  per_second,
  flops,  // operations per second
  money,
};

/// The range in which the value of a figure must lie. In a measurement, a figure may exceed the range by
/// the difference between the clocks of the devices.
enum class FigureBound : std::uint8_t {
  not_negative,
  within_run,        // from 0 to the makespan
  up_to_makespan,    // at most the makespan, and slightly negative in measurements
  part,              // from 0 to 1
  part_if_predicted  // at least 0, and in a prediction at most 1
};

/// The form in which JSON shows that a result does not have the figure.
enum class AbsentFigure : std::uint8_t {
  never,     // the figure is never absent
  null,      // the key has the value null
  left_out,  // the key is absent
};

/// A figure that each rank has, and that is a whole number.
struct RankFigure {
  /// The key of the figure in JSON and CSV.
  std::string_view key;
  /// The title of the figure's column in tables.
  std::string_view title;
  FigureUnit unit;
  FigureBound bound;
  /// The meaning of the figure in one sentence.
  std::string_view meaning;
  std::int64_t (*get)(const RankReport& rank);
  void (*set)(RankReport& rank, std::int64_t value);
  /// The smallest value that is accepted in JSON.
  std::int64_t least = 0;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  /// The form in which JSON shows that the figure is absent. If it is `left_out`, files of older versions
  /// may lack the figure.
  AbsentFigure absent = AbsentFigure::never;
};

/// Returns the figures of a rank, in the order of the output.
std::span<const RankFigure> figures_of_ranks();

/// A figure that a whole run has, and that is a real number.
struct RunFigure {
  /// The JSON object that contains the figure: "bubble" or "throughput".
  std::string_view section{};
  std::string_view key{};
  FigureUnit unit;
  FigureBound bound;
  /// The meaning of the figure in one sentence.
  std::string_view meaning;
  std::optional<double> (*get)(const RunFigures& run) = nullptr;
  void (*set)(RunFigures& run, double value) = nullptr;
  /// The name of the headline that shows the figure, such as "bubble". The next field, `text`, is the
  /// figure's part of this headline; the value of the figure replaces {}.
  std::string_view headline{};
  std::string_view text{};
  AbsentFigure absent = AbsentFigure::never;
  /// The key of another figure that is present exactly when this figure is present. It is empty if there is
  /// no such figure.
  std::string_view comes_with{};
  /// The title of the figure's column in the table of a sweep. Empty means that the table has no such
  /// column.
  std::string_view column{};
  /// True if the CSV and JSON of a sweep contain the figure.
  bool in_sweep = true;
};

/// Returns the figures of a run, in the order of the output.
std::span<const RunFigure> figures_of_runs();

/// Returns the three ratios that papers call "bubble" (see BubbleReport), computed from the figures of all
/// ranks. All are 0 if no action takes time.
BubbleReport bubble_of(std::span<const RankFigures> ranks, Ns makespan_ns);

}  // namespace penstock
