// A program lists one pass; iterations repeat it. An action met in iteration i is the listed one with its
// microbatch raised by i * unit_count and its weight version by i times the STEPs of its stage in one pass,
// so that numbers run on and no two actions of a run are the same.

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
  // One STEP a microbatch, on each replica for those that it runs, so that counting would mislead.
  if (program.update == UpdateRule::microbatch) return 1;
  // All stages update alike, so that the first one speaks for them; without any STEP a pass is a
  // minibatch.
  const std::int32_t steps = steps_per_pass(program, program.placement.stages.front().ranks.front()).front();
  return program.microbatches / std::max(1, steps);
}

}  // namespace penstock
