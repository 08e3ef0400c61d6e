// V-Half (Qi et al., "Pipeline Parallelism with Controllable Memory", NeurIPS'24): a rank stores 2
// (floor(K/2) + 1) of the 2K chunks, about half the activations of 1F1B. The model goes down the ranks and
// back up, so rank r has stages r and 2K-1-r. With 2 ranks and 3 microbatches of equal times:
//
//   rank 0   0F0 0F1 0F2 3F0 3I0 3W0 3F1 0I0 3I1 0W0 3W1 3F2 3I2 0I1 3W2 0I2 0W1 0W2
//   rank 1       1F0 2F0 1F1 2F1 2I0 1I0 2W0 1F2 1W0 2F2 2I1 1I1 2I2 1I2 2W1 1W1 2W2 1W2
//
// The building block starts microbatch 0 on rank r in the slots below, and each later microbatch six slots
// later. Ws fill the slots between them (section 3 of the paper; offsets as in the authors' scheduler):
//   F down 2r, F up 3K-2-r, I up 3K-1+d+2r, I down 6K-2+d-r, with d = 3 for even K and 0 for odd K.
// The block runs with the times of shape.costs (follow_order.hpp). A search may find a shorter order in the
// same memory (synthesis.hpp).

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

std::vector<BlockSlots> v_half_block(std::int32_t ranks) {
  const std::int64_t k = ranks;
  const std::int64_t d = k % 2 == 0 ? 3 : 0;
  std::vector<BlockSlots> slots;
  slots.reserve(static_cast<std::size_t>(k));
  for (std::int64_t r = 0; r < k; ++r) {
    slots.push_back({.forward_down = 2 * r,
                     .forward_up = 3 * k - 2 - r,
                     .backward_up = 3 * k - 1 + d + 2 * r,
                     .backward_down = 6 * k - 2 + d - r});
  }
  return slots;
}

Generated v_half(const Shape& shape) {
  Program program = zigzag_program("v-half", shape);
  const std::int64_t activations = 2 * (std::int64_t{shape.stages} / 2 + 1);
  auto costs = order_costs(shape, program, activations);
  if (!costs) return tl::unexpected(costs.error());
  const OrderCosts counted =
      counting_activations(*costs, std::vector<Bytes>(static_cast<std::size_t>(shape.stages), activations));
  program = best_followed(
      std::move(program), counted,
      {{.order = repeated_block(v_half_block(shape.stages), shape.microbatches, ActionKind::backward_input),
        .options = options_with_weights()}});
  return searched(std::move(program), counted, shape);
}

}  // namespace penstock
