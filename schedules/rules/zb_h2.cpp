// ZB-H2 (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR'24, section 2): ZB-H1 with twice the warm-up
// forwards and twice the delay of W. Each rank then works without a pause from its first to its last action.
// A rank stores at most 2K - 1 activations. With 3 stages and 6 microbatches:
//
//   rank 0   F0 F1 F2 F3 F4 I0 W0 F5 I1 W1 I2 W2 I3 W3 I4 W4 I5 W5
//   rank 1      F0 F1 F2 I0 F3 I1 F4 I2 W0 F5 I3 W1 I4 W2 I5 W3 W4 W5
//   rank 2         F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 W0 F5 I5 W1 W2 W3 W4 W5
//
// Ranks start and end one after the other. The remaining bubble is before the first and after the last action
// of each rank. It disappears if the ranks are not synchronised before the update (the paper's
// post-validation). The authors' code requires M >= 2K. This rule also accepts fewer microbatches and then
// places fewer forwards.

#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/rules/hand_made_zero_bubble.hpp"

namespace penstock {

GeneratedLoops zb_h2_loops(const Shape& shape) { return hand_made_zero_bubble("zb-h2", shape, 2); }

Generated zb_h2(const Shape& shape) { return spelled_out(hand_made_zero_bubble("zb-h2", shape, 2), shape); }

}  // namespace penstock
