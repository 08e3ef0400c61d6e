// Interleaved zero bubble (PyTorch's ScheduleInterleavedZeroBubble; ZB-1P of Qi et al., ICLR'24, with v
// chunks on each rank) is interleaved 1F1B with two changes. Backwards are split into I and W, and the
// additional warm-up is half as long. Rank r delays each W by r visits. With 2 ranks, v = 2 (stages 0 and 2
// on rank 0) and 2 microbatches:
//
//   rank 0   0F0 0F1 2F0 2F1     2I0 2W0 2I1 2W1 0I0 0W0 0I1 0W1
//   rank 1       1F0 1F1 3F0 3I0 3F1 3I1 3W0 1I0 3W1 1I1 1W0 1W1
//
// Each rank stores at most (v-1) g + K activations. If M is a multiple of K, this is K * v. M must be a
// multiple of the number of rounds R = max(1, M / K), as in interleaved.cpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/rules/virtual_order.hpp"

namespace penstock {

ShapeCheck interleaved_zero_bubble_takes(const Shape& shape) {
  return pytorch_group("interleaved-zero-bubble", shape).map([](std::int32_t) {});
}

Generated interleaved_zero_bubble(const Shape& shape) {
  const auto group = pytorch_group("interleaved-zero-bubble", shape);
  if (!group) return tl::unexpected(group.error());
  Program program = looped_program("interleaved-zero-bubble", shape);
  const VirtualOrder order(shape, *group);
  reserve_actions(program, 3 * order.size());
  for (std::int32_t rank = 0; rank < shape.stages; ++rank) {
    const std::int64_t warmup = std::min(
        order.size(), std::int64_t{shape.virtual_stages - 1} * order.group() + shape.stages - 1 - rank);
    auto& list = program.ranks[static_cast<std::size_t>(rank)];
    std::int64_t next_weight = 0;
    for (std::int64_t k = 0; k < order.size() + warmup; ++k) {
      if (k < order.size()) list.push_back(order.kth_forward(rank, k));
      if (k < warmup) continue;
      list.push_back(order.kth_backward(ActionKind::backward_input, rank, k - warmup));
      if (k - warmup < rank) continue;
      list.push_back(order.kth_backward(ActionKind::backward_weight, rank, next_weight++));
    }
    while (next_weight < order.size()) {
      list.push_back(order.kth_backward(ActionKind::backward_weight, rank, next_weight++));
    }
  }
  append_steps(program);
  insert_recompute(program, shape);
  return program;
}

}  // namespace penstock
