// 1F1B with a flush (PipeDream-Flush, DAPPLE, Megatron's non-interleaved schedule). Each rank runs one
// forward for every stage after its own, then alternates one forward with one backward, then drains
// the backwards that are left. With 3 stages and 4 microbatches:
//
//   rank 0   F0 F1 F2       B0 F3 B1    B2    B3
//   rank 1      F0 F1    B0 F2 B1 F3 B2    B3
//   rank 2         F0 B0 F1 B1 F2 B2 F3 B3
//
// `warmup` replaces "one for every stage after its own" by a number a stage: more of them hide the
// latency of links at the price of memory.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

Generated one_f_one_b(const Shape& shape) {
  Program program = looped_program("1f1b", shape);
  reserve_actions(program, std::int64_t{2} * shape.microbatches);
  std::int32_t previous = shape.microbatches;
  for (std::int32_t stage = 0; stage < shape.stages; ++stage) {
    const std::int32_t stated = warmup_of(shape, stage, shape.stages - 1 - stage);
    const std::int32_t warmup = std::min(stated, shape.microbatches);
    if (warmup > previous) {
      return tl::unexpected(fmt::format(
          "warmup: stage {} has {} warm-up forwards and stage {} only {}; each stage needs at least as many "
          "as the stage after it",
          stage, warmup, stage - 1, previous));
    }
    previous = warmup;
    auto& list = program.ranks[static_cast<std::size_t>(stage)];
    for (std::int32_t m = 0; m < warmup; ++m) list.push_back(forward(stage, m));
    for (std::int32_t m = warmup; m < shape.microbatches; ++m) {
      list.push_back(forward(stage, m));
      list.push_back(backward(stage, m - warmup));
    }
    for (std::int32_t m = shape.microbatches - warmup; m < shape.microbatches; ++m) {
      list.push_back(backward(stage, m));
    }
  }
  append_steps(program);
  insert_recompute(program, shape);
  return program;
}

}  // namespace penstock
