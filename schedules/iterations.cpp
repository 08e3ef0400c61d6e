#include "schedules/iterations.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedules/action.hpp"
#include "schedules/program.hpp"

namespace penstock {

std::vector<std::int32_t> steps_per_pass(const Program& program, std::int32_t rank) {
  std::vector<std::int32_t> steps(program.placement.stages.size(), 0);
  for (const Action& action : program.ranks[static_cast<std::size_t>(rank)]) {
    if (action.kind == ActionKind::step) ++steps[static_cast<std::size_t>(action.stage)];
  }
  return steps;
}

}  // namespace penstock
