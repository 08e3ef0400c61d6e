// DualPipeV (deepseek-ai/DualPipe, commit 3da1bbea; PyTorch's ScheduleDualPipeV) is DualPipe cut in half. The
// model goes down the ranks and back up, so rank r has stages r and 2K-1-r. The two streams of DualPipe
// become the two chunks of one stream. With 2 ranks and 4 microbatches (0F3&3B1 overlap):
//
//   rank 0   0F0 0F1 0F2 3F0 3I0 3W0 3F1 0F3&3B1 3F2&0B0 3B2     3F3&0B1 3B3 0I2 0W2 0I3 0W3
//   rank 1       1F0 2F0 1F1 2F1 1F2 2B0 2F2&1B0 1F3&2B1 2F3&1B1 2B2     1B2 2I3 1I3 2W3 1W3
//
// The weights exist once. A rank stores at most 2K + 1 activations. M must be at least 2K, the number of
// stages.

#include <cstddef>
#include <cstdint>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/dual_pipe_steps.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

ShapeCheck dual_pipe_v_takes(const Shape& shape) {
  const std::int32_t stages = 2 * shape.stages;
  if (shape.microbatches < stages) {
    return tl::unexpected(fmt::format(
        "microbatches: dualpipe-v needs at least as many as the model has stages, 2 x {} = {}; got {}; "
        "the nearest that works is {}",
        shape.stages, stages, shape.microbatches, stages));
  }
  return {};
}

Generated dual_pipe_v(const Shape& shape) {
  if (auto taken = dual_pipe_v_takes(shape); !taken) return tl::unexpected(taken.error());
  const std::int32_t stages = 2 * shape.stages;
  Program program = zigzag_program("dualpipe-v", shape);
  for (std::int32_t rank = 0; rank < shape.stages; ++rank) {
    program.ranks[static_cast<std::size_t>(rank)] =
        dual_pipe_steps({.streams = {DualPipeStream{.stage = rank}, {.stage = stages - 1 - rank}},
                         .microbatches = shape.microbatches,
                         .depth = shape.stages,
                         .position = rank});
  }
  append_steps(program);
  return program;
}

}  // namespace penstock
