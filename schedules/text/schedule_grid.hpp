#pragma once
// Draws a part of a program as a table, as PyTorch prints schedules. It has a column for each rank and a row
// for each step.

#include <cstddef>
#include <cstdint>
#include <string>

#include "schedules/ir/program.hpp"

namespace penstock {

/// A position in a program's lists. `position` may be one after the last action, which means the end of the
/// list.
struct ProgramPlace {
  std::int32_t rank = 0;
  std::size_t position = 0;

  friend bool operator==(const ProgramPlace&, const ProgramPlace&) = default;
};

/// The largest number of rows (`steps`) and columns (`ranks`).
struct GridSize {
  std::size_t steps = 7;
  std::size_t ranks = 8;
};

/// Returns the part of `program` around `marked`. The marked cell ends in "<-- here". Step k of a rank is
/// entry k of its list, where an overlapped group is a single entry. Requires 0 <= marked.rank <
/// program.rank_count().
std::string schedule_grid(const Program& program, const ProgramPlace& marked, const GridSize& size = {});

}  // namespace penstock
