// ZB-H1 (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR'24, section 2): 1F1B with the backward split
// into I and W. Rank r delays its W by r microbatches and fills the drain with them, so every rank
// holds at most K activations, as rank 0 of 1F1B does. With 3 stages and 4 microbatches:
//
//   rank 0   F0 F1 F2       I0 W0 F3 I1 W1 I2 W2 I3 W3
//   rank 1      F0 F1    I0 F2 I1 W0 F3 I2 W1 I3 W2 W3
//   rank 2         F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3
//
// The authors' code asks for M >= 2K; with fewer microbatches the same rule just runs out of forwards.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/rules/hand_made_zero_bubble.hpp"

namespace penstock {

/// Rank r runs depth * (K-1-r) warm-up forwards and delays each W by depth * r microbatches.
void append_hand_made_zero_bubble(Program& program, const Shape& shape, std::int32_t depth) {
  for (std::int32_t rank = 0; rank < shape.stages; ++rank) {
    auto& list = program.ranks[static_cast<std::size_t>(rank)];
    std::int32_t next_forward = 0;
    std::int32_t next_weight = 0;
    const std::int32_t warmup = std::min(shape.microbatches, depth * (shape.stages - 1 - rank));
    while (next_forward < warmup) list.push_back(forward(rank, next_forward++));
    for (std::int32_t m = 0; m < shape.microbatches; ++m) {
      if (next_forward < shape.microbatches) list.push_back(forward(rank, next_forward++));
      list.push_back(compute(ActionKind::backward_input, rank, m));
      if (m >= depth * rank) list.push_back(compute(ActionKind::backward_weight, rank, next_weight++));
    }
    while (next_weight < shape.microbatches) {
      list.push_back(compute(ActionKind::backward_weight, rank, next_weight++));
    }
  }
}

Generated zb_h1(const Shape& shape) {
  Program program = looped_program("zb-h1", shape);
  append_hand_made_zero_bubble(program, shape, 1);
  append_steps(program);
  insert_recompute(program, shape);
  return program;
}

}  // namespace penstock
