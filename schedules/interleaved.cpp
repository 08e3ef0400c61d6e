// Interleaved 1F1B: v model chunks a rank, so that the bubble shrinks by v (Narayanan et al., SC'21,
// section 2.2). Microbatches pass in rounds of g; inside a round all g go through chunk 0, then all
// through chunk 1, ... With 2 ranks, v = 2 (stages 0 and 2 on rank 0), 2 microbatches:
//
//   rank 0   0F0 0F1 2F0 2F1     2B0     2B1 0B0 0B1
//   rank 1       1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1
//
// Rounds are PyTorch's: R = max(1, M / K) of g = M / R microbatches, and M must be a multiple of R; for
// M a multiple of K this is Megatron's order.

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/generators.hpp"
#include "schedules/program.hpp"
#include "schedules/program_parts.hpp"

namespace penstock {
namespace {

struct VirtualOrder {
  std::int32_t ranks;
  std::int32_t chunks;
  std::int32_t round;  // g

  /// The k-th forward of a rank; the k-th backward mirrors the chunk.
  std::int32_t microbatch(std::int32_t k) const { return k / (round * chunks) * round + k % round; }
  std::int32_t chunk(std::int32_t k) const { return k / round % chunks; }
  Action kth_forward(std::int32_t rank, std::int32_t k) const {
    return forward(chunk(k) * ranks + rank, microbatch(k));
  }
  Action kth_backward(std::int32_t rank, std::int32_t k) const {
    return backward((chunks - 1 - chunk(k)) * ranks + rank, microbatch(k));
  }
};

std::int32_t rounds_of(std::int32_t stages, std::int32_t microbatches) {
  return std::max(1, microbatches / stages);
}

bool takes(std::int32_t stages, std::int32_t microbatches) {
  return microbatches % rounds_of(stages, microbatches) == 0;
}

std::string refusal(const Shape& shape) {
  std::int32_t below = shape.microbatches;
  while (!takes(shape.stages, below)) --below;
  std::int32_t above = shape.microbatches;
  while (!takes(shape.stages, above)) ++above;
  const std::int32_t rounds = rounds_of(shape.stages, shape.microbatches);
  return fmt::format(
      "microbatches: interleaved runs {} microbatches on {} ranks in {} rounds, and {} is not a multiple of {}; "
      "the nearest that work are {} and {}",
      shape.microbatches, shape.stages, rounds, shape.microbatches, rounds, below, above);
}

}  // namespace

Generated interleaved(const Shape& shape) {
  if (!takes(shape.stages, shape.microbatches)) return tl::unexpected(refusal(shape));
  Program program = looped_program("interleaved", shape);
  const VirtualOrder order{.ranks = shape.stages,
                           .chunks = shape.virtual_stages,
                           .round = shape.microbatches / rounds_of(shape.stages, shape.microbatches)};
  const std::int32_t total = shape.microbatches * shape.virtual_stages;
  for (std::int32_t rank = 0; rank < shape.stages; ++rank) {
    const std::int32_t warmup =
        std::min(total, (shape.virtual_stages - 1) * order.round + 2 * (shape.stages - 1 - rank));
    auto& list = program.ranks[static_cast<std::size_t>(rank)];
    for (std::int32_t k = 0; k < warmup; ++k) list.push_back(order.kth_forward(rank, k));
    for (std::int32_t k = warmup; k < total; ++k) {
      list.push_back(order.kth_forward(rank, k));
      list.push_back(order.kth_backward(rank, k - warmup));
    }
    for (std::int32_t k = total - warmup; k < total; ++k) list.push_back(order.kth_backward(rank, k));
  }
  append_steps(program);
  insert_recompute(program, shape);
  return program;
}

}  // namespace penstock
