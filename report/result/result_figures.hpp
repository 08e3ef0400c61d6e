#pragma once
// The figures of a Result as tables and sentences. The terminal table and the HTML report share them.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "report/print/memory_category.hpp"
#include "report/print/table.hpp"
#include "report/result/figure_rows.hpp"
#include "report/result/result.hpp"

namespace penstock {

/// A figure with its name: {"makespan", "138.522 ms"}.
struct Headline {
  std::string name;
  std::string figure;

  friend bool operator==(const Headline&, const Headline&) = default;
};

/// Returns the value of a figure of a run as a cell of a table.
Cell run_cell(const RunFigure& figure, double value);

/// Returns K, the ranks of one pipeline. If a result does not give it, this is the smaller of the numbers of
/// stages and ranks.
std::int32_t pipeline_size(const ProgramReport& program);

/// Returns the headlines: schedule and shape, makespan, the three bubbles, throughput, memory if a part is
/// reserved, and traffic.
std::vector<Headline> headlines(const Result& result);
/// Returns a row for each rank: device, busy and idle time, exposed communication, peak memory (with the
/// capacity if it is exceeded), live activations, weight versions, traffic.
Table rank_figures(const Result& result);
/// Returns a row for each rank with the peak of each category that some rank uses.
Table peak_figures(const Result& result);
/// Returns a row for each link; none if no message used a link.
Table link_figures(const Result& result);
/// Returns the memory that a rank has: "80.00 GiB", or "76.65 GiB usable of 80.00 GiB" if a part is reserved.
/// Requires a capacity.
std::string available_text(const RankMemory& memory);
/// Returns a sentence for each rank that does not fit: its device, what it needs and has, and the action that
/// reaches the peak.
std::vector<std::string> out_of_memory_lines(const Result& result);
/// Returns the categories that some rank uses, in the order of the enum.
std::vector<MemoryCategory> used_categories(const Result& result);

// Writes a Result as text for terminals: main figures, a table of ranks, memory by category, and links.

/// The choice whether sentences about ranks that run out of memory follow the tables. The table of ranks
/// always marks such ranks.
enum class OutOfMemoryLines : std::uint8_t { shown, left_out };

/// The options of the text for terminals.
struct ResultTableOptions {
  OutOfMemoryLines out_of_memory = OutOfMemoryLines::shown;
  /// The longest line of a table in characters; 0 means no limit.
  std::size_t width = 0;
};

/// Returns the text, with durations and bytes in readable units.
std::string result_to_table(const Result& result, const ResultTableOptions& options = {});

}  // namespace penstock
