// ZB-1p (Qi et al., ICLR'24): the automatic zero-bubble schedule with the memory of 1F1B. A rank stores at
// most K activations, unless shape.memory_limit states another limit. The heuristic is in zb_auto.cpp. With 3
// stages and 4 microbatches of equal times:
//
//   rank 0   F0 F1 F2       I0 W0 F3 I1 W1 I2 W2 I3 W3
//   rank 1      F0 F1    I0 F2 I1 W0 F3 I2 W1 I3 W2 W3
//   rank 2         F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3

#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/search/zb_auto.hpp"

namespace penstock {

Generated zb_1p(const Shape& shape) { return automatic_zero_bubble("zb-1p", shape, shape.stages); }

}  // namespace penstock
