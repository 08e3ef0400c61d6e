// ZB-H1 (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR'24, section 2): 1F1B with each backward split
// into I and W. Rank r delays its Ws by r microbatches and fills the drain with them. Every rank then stores
// at most K activations, like rank 0 of 1F1B. With 3 stages and 4 microbatches:
//
//   rank 0   F0 F1 F2       I0 W0 F3 I1 W1 I2 W2 I3 W3
//   rank 1      F0 F1    I0 F2 I1 W0 F3 I2 W1 I3 W2 W3
//   rank 2         F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3
//
// The authors' code requires M >= 2K. This rule also accepts fewer microbatches and then places fewer
// forwards.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/rules/hand_made_zero_bubble.hpp"

namespace penstock {

/// Returns the loops of ZB-H1 or ZB-H2. Rank r runs depth * (K-1-r) warm-up forwards and delays each W by
/// depth * r microbatches. After the warm-up, each repetition is I alone, F I, I W or F I W.
RolledProgram hand_made_zero_bubble(std::string schedule, const Shape& shape, std::int32_t depth) {
  RolledProgram rolled = with_empty_loops(looped_program(std::move(schedule), shape));
  const std::int32_t last = shape.microbatches;
  for (std::int32_t rank = 0; rank < shape.stages; ++rank) {
    ActionLoops& list = rolled.lists[index(rank)];
    const std::int32_t warmup = std::min(last, depth * (shape.stages - 1 - rank));
    const std::int32_t delay = std::min(last, depth * rank);
    const std::int32_t with_forward = last - warmup;
    list.repeat({forward(rank, 0)}, warmup);
    const std::array cuts = {0, std::min(with_forward, delay), std::max(with_forward, delay), last};
    for (std::size_t part = 0; part + 1 < cuts.size(); ++part) {
      const std::int32_t m = cuts[part];
      std::vector<PatternAction> pattern;
      if (m < with_forward) pattern.push_back({.action = forward(rank, warmup + m)});
      pattern.push_back({.action = compute(ActionKind::backward_input, rank, m)});
      if (m >= delay) pattern.push_back({.action = compute(ActionKind::backward_weight, rank, m - delay)});
      list.repeat(std::move(pattern), cuts[part + 1] - m);
    }
    list.repeat({compute(ActionKind::backward_weight, rank, last - delay)}, delay);
  }
  append_steps(rolled);
  return rolled;
}

GeneratedLoops zb_h1_loops(const Shape& shape) { return hand_made_zero_bubble("zb-h1", shape, 1); }

Generated zb_h1(const Shape& shape) { return spelled_out(hand_made_zero_bubble("zb-h1", shape, 1), shape); }

}  // namespace penstock
