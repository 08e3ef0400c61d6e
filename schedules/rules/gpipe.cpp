// GPipe fill-drain (Huang et al., NeurIPS'19, section 2.3): all forwards run first, then all backwards, then
// the update. With 3 stages and 4 microbatches, and backwards first-in-first-out:
//
//   rank 0   F0 F1 F2 F3             B0 B1 B2 B3
//   rank 1      F0 F1 F2 F3       B0 B1 B2 B3
//   rank 2         F0 F1 F2 F3 B0 B1 B2 B3
//
// With last-in-first-out, the backwards are B3 B2 B1 B0 and take the same time, as in torchgpipe. With
// re-materialisation an R comes before each B. An early R runs while the gradient is still in transfer.

#include <cstdint>
#include <utility>
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

GeneratedLoops gpipe_loops(const Shape& shape) {
  RolledProgram rolled = with_empty_loops(looped_program("gpipe", shape));
  const bool oldest_first = shape.backward_order == BackwardOrder::fifo;
  for (std::int32_t stage = 0; stage < shape.stages; ++stage) {
    ActionLoops& list = rolled.lists[index(stage)];
    list.repeat({forward(stage, 0)}, shape.microbatches);
    if (oldest_first) {
      list.repeat({backward(stage, 0)}, shape.microbatches);
    } else {
      list.repeat({backward(stage, shape.microbatches - 1)}, shape.microbatches, -1);
    }
  }
  append_steps(rolled);
  return rolled;
}

Generated gpipe(const Shape& shape) {
  return gpipe_loops(shape).map([&](RolledProgram rolled) { return spelled_out(std::move(rolled), shape); });
}

}  // namespace penstock
