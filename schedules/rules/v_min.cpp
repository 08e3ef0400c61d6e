// V-Min (Qi et al., "Pipeline Parallelism with Controllable Memory", NeurIPS'24): a rank stores 2
// (floor((K+1)/3) + 1) of the 2K chunks, about a third of the activations of 1F1B. The model goes down the
// ranks and back up, so rank r has stages r and 2K-1-r. With 2 ranks and 3 microbatches of equal times:
//
//   rank 0   0F0 0F1     3F0 3I0 3W0 3F1 0I0 3I1 0W0 0F2 0I1 3W1 3F2 3I2 0W1 3W2 0I2 0W2
//   rank 1       1F0 2F0 1F1 2F1 2I0 1I0 2W0 1W0 2I1 1I1 1F2 2F2 2W1 1W1 2I2 1I2 2W2 1W2
//
// The building block starts microbatch 0 on rank r in the slots below, and each later microbatch six slots
// later. Ws fill the slots between them (section 3 of the paper; offsets as in the authors' scheduler):
//   F down r, F up 2K-1-r, I up 2K+d+r, I down 4K+d-1-r, with d = 2 where 3 divides K and 0 elsewhere.
// If K mod 3 = 2, rank 0 needs two activations less than the fullest rank, and it gets one less. The block
// runs with the times of shape.costs (follow_order.hpp). A search may find a shorter order in the same memory
// (synthesis.hpp).

#include <cstddef>
#include <cstdint>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/search/follow_order.hpp"
#include "schedules/search/synthesis.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

std::vector<BlockSlots> v_min_block(std::int32_t ranks) {
  const std::int64_t k = ranks;
  const std::int64_t d = k % 3 == 0 ? 2 : 0;
  std::vector<BlockSlots> slots;
  slots.reserve(static_cast<std::size_t>(k));
  for (std::int64_t r = 0; r < k; ++r) {
    slots.push_back({.forward_down = r,
                     .forward_up = 2 * k - 1 - r,
                     .backward_up = 2 * k + d + r,
                     .backward_down = 4 * k + d - 1 - r});
  }
  return slots;
}

Generated v_min(const Shape& shape) {
  Program program = zigzag_program("v-min", shape);
  const std::int64_t k = shape.stages;
  std::vector<Bytes> activations(static_cast<std::size_t>(k), 2 * ((k + 1) / 3 + 1));
  if (k % 3 == 2) --activations.front();
  auto costs = order_costs(shape, program, activations.back());
  if (!costs) return tl::unexpected(costs.error());
  const OrderCosts counted = counting_activations(*costs, activations);
  program = best_followed(
      std::move(program), counted,
      {{.order = repeated_block(v_min_block(shape.stages), shape.microbatches, ActionKind::backward_input),
        .options = options_with_weights()}});
  return searched(std::move(program), counted, shape);
}

}  // namespace penstock
