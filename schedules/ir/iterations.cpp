
#include "schedules/ir/iterations.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

std::vector<std::int32_t> steps_per_pass(const Program& program, std::int32_t rank) {
  std::vector<std::int32_t> steps(program.placement.stages.size(), 0);
  for (const Action& action : program.ranks[static_cast<std::size_t>(rank)]) {
    if (action.kind == ActionKind::step) ++steps[static_cast<std::size_t>(action.stage)];
  }
  return steps;
}

std::int32_t microbatches_of_minibatch(const Program& program) {
  // Each replica has STEPs only for its own microbatches, so the STEPs of one rank do not give the answer.
  if (program.update == UpdateRule::microbatch) return 1;
  // All stages have equally many STEPs, so the STEPs of stage 0 are enough. Without any STEP, an iteration is
  // one minibatch.
  const std::int32_t steps = steps_per_pass(program, program.placement.stages.front().ranks.front()).front();
  return program.microbatches / std::max(1, steps);
}

}  // namespace penstock
