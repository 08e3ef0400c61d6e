// Naive model parallelism: one microbatch at a time goes down the stages and back, so one rank works while
// all other ranks wait. With 3 stages and 2 microbatches:
//
//   rank 0   F0             B0 F1             B1
//   rank 1      F0       B0       F1       B1
//   rank 2         F0 B0             F1 B1
//
// The optimizer updates the weights once at the end, with accumulated gradients. With `update: microbatch` it
// updates them after every microbatch, which is sequential SGD (PipeDream, SOSP'19, Figure 2).

#include <cstdint>
#include <utility>
#include <vector>
#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

GeneratedLoops naive_loops(const Shape& shape) {
  RolledProgram rolled = with_empty_loops(looped_program("naive", shape));
  rolled.program.update = shape.update;
  const bool step_each = shape.update == UpdateRule::microbatch;
  const std::int32_t next = step_each ? 1 : 0;
  for (std::int32_t stage = 0; stage < shape.stages; ++stage) {
    std::vector<PatternAction> pattern = {{.action = forward(stage, 0), .version_step = next},
                                          {.action = backward(stage, 0), .version_step = next}};
    if (step_each) pattern.push_back({.action = whole_stage(ActionKind::step, stage)});
    rolled.lists[index(stage)].repeat(std::move(pattern), shape.microbatches);
  }
  if (!step_each) append_steps(rolled);
  return rolled;
}

Generated naive(const Shape& shape) {
  return naive_loops(shape).map([&](RolledProgram rolled) { return spelled_out(std::move(rolled), shape); });
}

}  // namespace penstock
