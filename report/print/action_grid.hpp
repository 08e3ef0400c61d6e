#pragma once
// Shows a program's lists side by side, as PyTorch prints schedules. There is a row for each step and a
// column for each rank.

#include <string>

#include "schedules/ir/program.hpp"

namespace penstock {

/// Returns the table as text. Row k shows the k-th entry of each rank's list. An overlapped pair is one
/// entry.
std::string action_grid(const Program& program);

}  // namespace penstock
