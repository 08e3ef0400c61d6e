#pragma once
// Writes the text that `penstock sweep` prints: the whole table of a short sweep, or a summary of a long one.

#include <cstddef>
#include <string>
#include <vector>

#include "report/result/sweep_table.hpp"

namespace penstock {

/// The largest number of points that are printed as a whole table. A longer sweep is summarized.
inline constexpr std::size_t kMostRowsPrinted = 40;

/// Returns the table of all points if the sweep is short. For a longer sweep, it returns the number of
/// points of each status and the best point of each schedule. After these, it lists the points that do not
/// fit into memory, and the reasons for skipped points. The text ends with the names of `files`, which
/// contain all points. `width` is the longest table line in characters; 0 means no limit.
std::string sweep_summary(const Sweep& sweep, const std::vector<std::string>& files, std::size_t width);

/// Returns the reasons why points of the sweep were not simulated, the most frequent first. Each line has a
/// reason and the number of points with this reason. The text is empty if all points were simulated.
std::string refusals_text(const Sweep& sweep);

}  // namespace penstock
