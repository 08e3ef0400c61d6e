#pragma once
// What `penstock sweep` prints: the whole table when it is short, otherwise what matters of it.

#include <cstddef>
#include <string>
#include <vector>

#include "report/result/sweep_table.hpp"

namespace penstock {

/// Sweeps with more rows than this are summed up.
inline constexpr std::size_t kMostRowsPrinted = 40;

/// The table of a short sweep. Of a longer one: how many points there are of each kind, the best row of each
/// schedule, what does not fit in memory and why points were skipped, and which of `files` hold all rows.
/// `width` is that of the tables' lines; 0: any.
std::string sweep_summary(const Sweep& sweep, const std::vector<std::string>& files, std::size_t width);

/// Why its rows were not simulated: a line a reason, with how many rows have it, the most frequent first.
/// Empty: all were.
std::string refusals_text(const Sweep& sweep);

}  // namespace penstock
