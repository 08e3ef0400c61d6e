// Looped breadth-first (Lamy-Poirier, "Breadth-First Pipeline Parallelism", arXiv 2211.05953; PyTorch's
// ScheduleLoopedBFS): all microbatches go forward through a chunk before the next chunk begins. Then all
// microbatches go backward, newest first. With 2 ranks, v = 2 (stages 0 and 2 on rank 0) and 2 microbatches:
//
//   rank 0   0F0 0F1 2F0 2F1         2B1 2B0 0B1 0B0
//   rank 1       1F0 1F1 3F0 3F1 3B1 3B0 1B1 1B0
//
// The weights of each stage are gathered and its gradients reduced once in a pass. This is the purpose of the
// schedule, because sharded weights then cause the least traffic. A rank stores all M * v activations.

#include <cstddef>
#include <cstdint>

#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

Generated looped_bfs(const Shape& shape) {
  Program program = looped_program("looped-bfs", shape);
  for (std::int32_t rank = 0; rank < shape.stages; ++rank) {
    auto& list = program.ranks[static_cast<std::size_t>(rank)];
    for (std::int32_t chunk = 0; chunk < shape.virtual_stages; ++chunk) {
      const std::int32_t stage = chunk * shape.stages + rank;
      for (std::int32_t m = 0; m < shape.microbatches; ++m) list.push_back(forward(stage, m));
    }
    for (std::int32_t chunk = shape.virtual_stages - 1; chunk >= 0; --chunk) {
      const std::int32_t stage = chunk * shape.stages + rank;
      for (std::int32_t m = shape.microbatches - 1; m >= 0; --m) list.push_back(backward(stage, m));
    }
  }
  append_steps(program);
  insert_recompute(program, shape);
  return program;
}

}  // namespace penstock
