#pragma once
// A program's lists side by side: a row a step, a column a rank, as PyTorch prints schedules.

#include <string>

#include "schedules/ir/program.hpp"

namespace penstock {

/// Step k of a rank is the k-th entry of its list; an overlapped pair is one entry. Every step is printed.
std::string action_grid(const Program& program);

}  // namespace penstock
