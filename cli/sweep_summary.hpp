#pragma once
// What `penstock sweep` prints: the whole table when it is short, otherwise what matters of it.

#include <string>
#include <vector>

#include "report/sweep.hpp"

namespace penstock {

/// Sweeps with more rows than this are summed up.
inline constexpr std::size_t kMostRowsPrinted = 40;

/// The table of a short sweep. Of a longer one: how many points there are of each kind, the best row of each
/// schedule, what does not fit in memory and why points were skipped, and which of `files` hold all rows.
std::string sweep_summary(const Sweep& sweep, const std::vector<std::string>& files);

}  // namespace penstock
