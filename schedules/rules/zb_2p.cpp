// ZB-2p (Qi et al., ICLR'24): the automatic zero-bubble schedule with twice the memory of 1F1B. A rank stores
// at most 2K activations, unless shape.memory_limit states another limit. The heuristic is in zb_auto.cpp.
// With 3 stages and 6 microbatches of equal times:
//
//   rank 0   F0 F1 F2 F3 F4 I0 W0 F5 I1 W1 I2 W2 I3 W3 I4 W4 I5 W5
//   rank 1      F0 F1 F2 I0 F3 I1 F4 I2 W0 F5 I3 I4 W1 W2 I5 W3 W4 W5
//   rank 2         F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 W0 F5 I5 W1 W2 W3 W4 W5

#include <cstdint>

#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/search/zb_auto.hpp"

namespace penstock {

Generated zb_2p(const Shape& shape) {
  return automatic_zero_bubble("zb-2p", shape, 2 * std::int64_t{shape.stages});
}

}  // namespace penstock
