// 1F1B with a flush (PipeDream-Flush, DAPPLE, Megatron's non-interleaved schedule). Each rank first runs one
// warm-up forward for every later stage. Then it alternates one forward with one backward. Finally it runs
// the remaining backwards. With 3 stages and 4 microbatches:
//
//   rank 0   F0 F1 F2       B0 F3 B1    B2    B3
//   rank 1      F0 F1    B0 F2 B1 F3 B2    B3
//   rank 2         F0 B0 F1 B1 F2 B2 F3 B3
//
// The option `warmup` states another number of warm-up forwards for each stage. More forwards hide the
// latency of links but need more memory.

#include <algorithm>
#include <cstdint>
#include <utility>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

GeneratedLoops one_f_one_b_loops(const Shape& shape) {
  RolledProgram rolled = with_empty_loops(looped_program("1f1b", shape));
  std::int32_t previous = shape.microbatches;
  for (std::int32_t stage = 0; stage < shape.stages; ++stage) {
    const std::int32_t stated = warmup_of(shape, stage, shape.stages - 1 - stage);
    const std::int32_t warmup = std::min(stated, shape.microbatches);
    // If a stage had more warm-up forwards than the previous stage, both would wait for each other. The
    // previous stage runs its next forward only after a backward, and this backward waits for this stage.
    if (warmup > previous) {
      return tl::unexpected(fmt::format(
          "warmup: stage {} has {} warm-up forwards and stage {} only {}; each stage needs at least as many "
          "as the stage after it",
          stage, warmup, stage - 1, previous));
    }
    previous = warmup;
    ActionLoops& list = rolled.lists[index(stage)];
    list.repeat({forward(stage, 0)}, warmup);
    list.repeat({forward(stage, warmup), backward(stage, 0)}, shape.microbatches - warmup);
    list.repeat({backward(stage, shape.microbatches - warmup)}, warmup);
  }
  append_steps(rolled);
  return rolled;
}

Generated one_f_one_b(const Shape& shape) {
  return one_f_one_b_loops(shape).map(
      [&](RolledProgram rolled) { return spelled_out(std::move(rolled), shape); });
}

}  // namespace penstock
