#pragma once
// The table of the figures of a result, with one row for each figure. JSON, CSV, tables, headlines, sweeps,
// the invariants and docs/reference/figures.md are made from the rows. To add a figure, add a row
// here and a field to result.hpp. For a figure of the run, also add its formula here.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/print/memory_category.hpp"
#include "report/print/table.hpp"
#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// The unit in which a figure is stored, which decides how tables print it.
enum class FigureUnit : std::uint8_t {
  nanoseconds,
  bytes,   // also used for the bytes of messages
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
  within_run,        // a time from 0 to the makespan
  up_to_makespan,    // a time of at most the makespan; it may be slightly negative in measurements
  part,              // a ratio from 0 to 1
  part_if_predicted  // a ratio of at least 0, and in a prediction at most 1
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

// Shows the figures of a Result as tables and sentences. Terminal text and the HTML report both use them.

/// The name of a figure and its value as text, such as {"makespan", "138.522 ms"}.
struct Headline {
  std::string name;
  std::string figure;

  friend bool operator==(const Headline&, const Headline&) = default;
};

/// Returns a figure of the run as a table cell.
Cell run_cell(const RunFigure& figure, double value);

/// Returns K, the number of ranks of one pipeline. If the result does not contain K, returns the number of
/// stages or the number of ranks, whichever is smaller.
std::int32_t pipeline_size(const ProgramReport& program);

/// Returns the headlines: schedule and shape, makespan, the three bubbles, throughput and traffic. If a
/// part of the memory is reserved, there is also a headline about memory.
std::vector<Headline> headlines(const Result& result);
/// Returns a table with a row for each rank: device, busy and idle time, exposed communication, peak
/// memory, live activations, weight versions and traffic. A peak that exceeds the memory of the device is
/// shown together with that memory.
Table rank_figures(const Result& result);
/// Returns a table with a row for each rank and a column for each memory category that some rank uses. The
/// cells are the peaks of the categories.
Table peak_figures(const Result& result);
/// Returns a table with a row for each link that messages used. It has no rows if no message used a link.
Table link_figures(const Result& result);
/// Returns the memory that a rank has: "80.00 GiB", or "76.65 GiB usable of 80.00 GiB" if a part is
/// reserved. Requires that the capacity is known.
std::string available_text(const RankMemory& memory);
/// Returns a sentence for each rank that needs more memory than it has. It names the device, the needed and
/// available memory, and the action that reaches the peak.
std::vector<std::string> out_of_memory_lines(const Result& result);
/// Returns the memory categories that at least one rank uses, in the order of the enum.
std::vector<MemoryCategory> used_categories(const Result& result);

/// The setting that says whether sentences about ranks without enough memory follow the tables. The table
/// of ranks marks these ranks in any case.
enum class OutOfMemoryLines : std::uint8_t { shown, left_out };

/// The options of the text for terminals.
struct ResultTableOptions {
  OutOfMemoryLines out_of_memory = OutOfMemoryLines::shown;
  /// The largest length of a table line in characters. 0 means no limit.
  std::size_t width = 0;
};

/// Returns the text of a result: headlines, a table of ranks, memory by category, and links.
std::string result_to_table(const Result& result, const ResultTableOptions& options = {});

}  // namespace penstock
