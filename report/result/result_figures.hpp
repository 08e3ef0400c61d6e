#pragma once
// Shows the figures of a Result as tables and sentences. Terminal text and the HTML report both use them.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "report/print/memory_category.hpp"
#include "report/print/table.hpp"
#include "report/result/figure_rows.hpp"
#include "report/result/result.hpp"

namespace penstock {

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
