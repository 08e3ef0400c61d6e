#pragma once
// Writes what `penstock sweep` prints: the whole table of a short sweep, or a summary of a long one.

#include <cstddef>
#include <string>
#include <vector>

#include "report/result/sweep_table.hpp"

namespace penstock {

/// The largest number of rows that is printed as a whole table. A longer sweep is summarized.
inline constexpr std::size_t kMostRowsPrinted = 40;

/// Returns the table of a short sweep. For a longer sweep it returns the number of points of each status and
/// the best row of each schedule. The points that do not fit in memory and the reasons for skipped points
/// follow. The text ends with the names of `files`, which have all rows. `width` is the longest table line in
/// characters; 0 means no limit.
std::string sweep_summary(const Sweep& sweep, const std::vector<std::string>& files, std::size_t width);

/// Returns the reasons why points were not simulated, the most frequent first. Each line has a reason and the
/// number of its points. The text is empty if all points were simulated.
std::string refusals_text(const Sweep& sweep);

}  // namespace penstock
