#pragma once
// Draws a part of a program as a table, a column a rank and a row a step, as PyTorch prints schedules.

#include <cstddef>
#include <cstdint>
#include <string>

#include "schedules/ir/program.hpp"

namespace penstock {

/// One place in a program's lists. `position` may be one past the last action: the end of the list.
struct ProgramPlace {
  std::int32_t rank = 0;
  std::size_t position = 0;

  friend bool operator==(const ProgramPlace&, const ProgramPlace&) = default;
};

struct GridSize {
  std::size_t steps = 7;
  std::size_t ranks = 8;
};

/// The part of `program` around `marked`, whose cell ends in "<-- here". Step k of a rank is the k-th entry
/// of its list, an overlapped group being one entry. Requires 0 <= marked.rank < program.rank_count().
std::string schedule_grid(const Program& program, const ProgramPlace& marked, const GridSize& size = {});

}  // namespace penstock
