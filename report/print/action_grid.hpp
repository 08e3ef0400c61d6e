#pragma once
// A program's lists side by side, as PyTorch prints schedules: a row for each step and a column for each
// rank.

#include <string>

#include "schedules/ir/program.hpp"

namespace penstock {

/// Returns the table. Step k of a rank is the k-th entry of its list, where an overlapped pair is one entry.
/// The table shows every step.
std::string action_grid(const Program& program);

}  // namespace penstock
