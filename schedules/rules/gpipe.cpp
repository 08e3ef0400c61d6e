// GPipe fill-drain (Huang et al., NeurIPS'19, section 2.3): all forwards, then all backwards, then the
// update. With 3 stages and 4 microbatches, backward first-in-first-out:
//
//   rank 0   F0 F1 F2 F3             B0 B1 B2 B3
//   rank 1      F0 F1 F2 F3       B0 B1 B2 B3
//   rank 2         F0 F1 F2 F3 B0 B1 B2 B3
//
// Last-in-first-out runs B3 B2 B1 B0 in the same time, as torchgpipe does. With re-materialisation an R
// stands before each B: early ones run while the gradient is still on its way.

#include <cstddef>
#include <cstdint>
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

Generated gpipe(const Shape& shape) {
  Program program = looped_program("gpipe", shape);
  reserve_actions(program, std::int64_t{2} * shape.microbatches);
  const std::int32_t last = shape.microbatches - 1;
  for (std::int32_t stage = 0; stage < shape.stages; ++stage) {
    auto& list = program.ranks[static_cast<std::size_t>(stage)];
    for (std::int32_t m = 0; m <= last; ++m) list.push_back(forward(stage, m));
    for (std::int32_t m = 0; m <= last; ++m) {
      list.push_back(backward(stage, shape.backward_order == BackwardOrder::fifo ? m : last - m));
    }
  }
  append_steps(program);
  insert_recompute(program, shape);
  return program;
}

}  // namespace penstock
