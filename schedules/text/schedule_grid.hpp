#pragma once
// Draws a part of a program as a table with a column for each rank and a row for each step, as PyTorch prints
// schedules.

#include <cstddef>
#include <cstdint>
#include <string>

#include "schedules/ir/program.hpp"

namespace penstock {

/// One position in a program's lists. `position` may be one past the last action, which means the end of the
/// list.
struct ProgramPlace {
  std::int32_t rank = 0;
  std::size_t position = 0;

  friend bool operator==(const ProgramPlace&, const ProgramPlace&) = default;
};

/// The largest number of rows and columns.
struct GridSize {
  std::size_t steps = 7;
  std::size_t ranks = 8;
};

/// Returns the part of `program` around `marked`, whose cell ends in "<-- here". Step k of a rank is the k-th
/// entry of its list, where an overlapped group is one entry. Requires 0 <= marked.rank <
/// program.rank_count().
std::string schedule_grid(const Program& program, const ProgramPlace& marked, const GridSize& size = {});

}  // namespace penstock
