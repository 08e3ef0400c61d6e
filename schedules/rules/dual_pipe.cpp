// DualPipe (DeepSeek-V3 technical report, section 3.2.1; deepseek-ai/DualPipe, commit 3da1bbea). Two streams
// of M/2 microbatches enter the pipeline at its two ends. Each rank therefore has one stage of each stream,
// and overlaps a forward of one stream with a backward of the other. With 2 ranks and 4 microbatches (0 and 1
// enter at rank 0, 2 and 3 at rank 1; F3&B0 overlap):
//
//   rank 0   F0 F2 F1 B2 F3&B0 B3 I1 W1
//   rank 1   F2 F0 F3 B0 F1&B2 B1 I3 W3
//
// The weights exist twice: stage s is on ranks s and K-1-s. These ranks reduce its gradient after their last
// W. A rank stores at most K + 1 activations. K and M must be even, and M must be at least 2 K.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/dual_pipe_steps.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

ShapeCheck dual_pipe_takes(const Shape& shape) {
  if (shape.stages % 2 != 0) {
    return tl::unexpected(
        fmt::format("stages: dualpipe lets two streams meet between two ranks, so it needs an even number of "
                    "ranks; got {}; the nearest that work are {}",
                    shape.stages,
                    shape.stages == 1 ? "2" : fmt::format("{} and {}", shape.stages - 1, shape.stages + 1)));
  }
  const std::int32_t least = 2 * shape.stages;
  if (shape.microbatches < least) {
    return tl::unexpected(fmt::format(
        "microbatches: dualpipe needs at least 2 x stages = {}, half of them for each direction; got "
        "{}; the nearest that works is {}",
        least, shape.microbatches, least));
  }
  if (shape.microbatches % 2 != 0) {
    const std::int32_t below = shape.microbatches - 1;
    return tl::unexpected(
        fmt::format("microbatches: dualpipe needs an even number, half of them for each direction; got {}; "
                    "the nearest that work are {} and {}",
                    shape.microbatches, below, shape.microbatches + 1));
  }
  return {};
}

Generated dual_pipe(const Shape& shape) {
  if (auto taken = dual_pipe_takes(shape); !taken) return tl::unexpected(taken.error());
  const std::int32_t half = shape.microbatches / 2;
  std::vector<std::int32_t> route(static_cast<std::size_t>(shape.microbatches), 0);
  std::fill(route.begin() + half, route.end(), 1);
  Program program = bidirectional_program("dualpipe", shape, route);
  for (std::int32_t rank = 0; rank < shape.stages; ++rank) {
    const std::int32_t mirror = shape.stages - 1 - rank;
    const DualPipeStream down{.stage = rank, .first_microbatch = 0};
    const DualPipeStream up{.stage = mirror, .first_microbatch = half};
    // The stream that enters at the nearer end comes first. This is `down` for the first half of the ranks
    // and `up` for the second half.
    const bool near_top = rank < mirror;
    program.ranks[static_cast<std::size_t>(rank)] =
        dual_pipe_steps({.streams = {near_top ? down : up, near_top ? up : down},
                         .microbatches = half,
                         .depth = shape.stages / 2,
                         .position = std::min(rank, mirror)});
  }
  append_reductions(program);
  append_steps(program);
  return program;
}

}  // namespace penstock
