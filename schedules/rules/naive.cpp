// Naive model parallelism: one microbatch at a time goes down the stages and back, so one rank works
// while the others wait. With 3 stages and 2 microbatches:
//
//   rank 0   F0             B0 F1             B1
//   rank 1      F0       B0       F1       B1
//   rank 2         F0 B0             F1 B1
//
// The optimizer steps once at the end (gradients are accumulated), or after every microbatch with
// `update: microbatch`, which is plain sequential SGD (PipeDream, SOSP'19, Figure 2).

#include <cstddef>
#include <cstdint>
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

Generated naive(const Shape& shape) {
  Program program = looped_program("naive", shape);
  program.update = shape.update;
  const bool step_each = shape.update == UpdateRule::microbatch;
  for (std::int32_t stage = 0; stage < shape.stages; ++stage) {
    auto& list = program.ranks[static_cast<std::size_t>(stage)];
    for (std::int32_t microbatch = 0; microbatch < shape.microbatches; ++microbatch) {
      const std::int32_t version = step_each ? microbatch : 0;
      list.push_back(forward(stage, microbatch, version));
      list.push_back(backward(stage, microbatch, version));
      if (step_each) list.push_back(whole_stage(ActionKind::step, stage));
    }
  }
  if (!step_each) append_steps(program);
  insert_recompute(program, shape);
  return program;
}

}  // namespace penstock
