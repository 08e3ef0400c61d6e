// ZB-V for measured costs (Qi et al., ICLR'24 and the authors' later V placement): zero bubble on a V with
// two chunks on each rank. It needs the memory of 1F1B, which is 2K of these chunks. Rank r has stages r and
// 2K-1-r, so rank 0 computes the loss. With 2 ranks and 3 microbatches of equal times:
//
//   rank 0   0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0W0 3F2 3I2 0I1 3W2 0I2 0W1 0W2
//   rank 1       1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 1I1 2I2 1I2 2W1 1W1 2W2 1W2
//
// F and I follow the fixed pattern of zbv_zero_bubble.cpp, which has no pauses if all times are equal. Ws
// fill the gaps that the times of shape.costs leave. Actions change places if that shortens the longest span
// (follow_order.hpp, squeeze.hpp). If shape.memory_limit is too small for this pattern, other orders are
// tried: the blocks of V-Half and V-Min, and one microbatch after the other. The shortest order that fits is
// used. A search may find a shorter one in the same memory (synthesis.hpp). Tested by weighed_costs_test.cpp.

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
#include "schedules/rules/known_orders.hpp"
#include "schedules/search/follow_order.hpp"
#include "schedules/search/synthesis.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {
namespace {

/// Returns the pattern of F and I, which exists for every K and M. Ws are placed later, by their times.
PreferredOrder fixed_pattern(const Shape& shape) {
  PreferredOrder order;
  const Generated pattern = zbv_zero_bubble(shape);
  for (const std::vector<Action>& list : pattern->ranks) {
    order.emplace_back();
    for (const Action& action : list) {
      if (action.kind == ActionKind::forward || action.kind == ActionKind::backward_input)
        order.back().push_back(action);
    }
  }
  return order;
}

PreferredOrder without_weights(const std::vector<std::vector<Action>>& lists) {
  PreferredOrder order = lists;
  for (std::vector<Action>& list : order) {
    std::erase_if(list, [](const Action& action) { return action.kind == ActionKind::backward_weight; });
  }
  return order;
}

}  // namespace

std::vector<OrderChoice> orders_on_a_v(const Shape& shape) {
  std::vector<OrderChoice> choices{{.order = fixed_pattern(shape), .options = options_with_weights()}};
  for (const auto& block : {v_half_block(shape.stages), v_min_block(shape.stages)}) {
    choices.push_back({.order = repeated_block(block, shape.microbatches, ActionKind::backward_input),
                       .options = options_with_weights()});
  }
  choices.push_back(
      {.order = without_weights(one_by_one(zigzag_program("", shape))), .options = {FollowOptions{}}});
  return choices;
}

Generated zb_v(const Shape& shape) {
  Program program = zigzag_program("zb-v", shape);
  const std::int64_t activations = 2 * std::int64_t{shape.stages};
  auto costs = order_costs(shape, program, activations);
  if (!costs) return tl::unexpected(costs.error());
  std::vector<OrderChoice> choices = orders_on_a_v(shape);
  if (shape.memory_limit.empty()) {
    costs =
        counting_activations(*costs, std::vector<Bytes>(static_cast<std::size_t>(shape.stages), activations));
    choices.resize(1);
    // Without a limit, the pattern determines how much memory a rank needs.
    return searched(best_followed(std::move(program), *costs, choices), *costs, shape);
  }
  const auto known = [&](const OrderCosts& within, Ns longest) {
    std::vector<std::vector<std::vector<Action>>> orders;
    if (auto lists = best_followed(within, choices, longest)) orders.push_back(*std::move(lists));
    return orders;
  };
  return searched(std::move(program), *costs, shape, known);
}

}  // namespace penstock
