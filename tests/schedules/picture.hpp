#pragma once
// Draws a program as the papers do: one row a rank, one column a time slot, every compute action or
// overlapped pair one slot long. Links are free.

#include <string>
#include <vector>

#include "schedules/ir/program.hpp"

namespace penstock {

/// "rank 0   F0 F1       B0 B1"; a pair is "F2&B0". Stage numbers are shown where ranks hold several stages.
/// STEPs and collectives take no slot and are not drawn.
std::vector<std::string> picture(const Program& compute_program);

}  // namespace penstock
