// Eager 1F1B (DAPPLE's policy PB; Alpa) is 1F1B with more warm-up: two forwards for every later stage. An
// activation then arrives before it is needed, even if links are slow. With 3 stages and 5 microbatches:
//
//   rank 0   F0 F1 F2 F3 F4 B0    B1    B2    B3    B4
//   rank 1      F0 F1 F2 B0 F3 B1 F4 B2    B3    B4
//   rank 2         F0 B0 F1 B1 F2 B2 F3 B3 F4 B4
//
// The work equals that of 1F1B. If transfers take no time, the total time is also equal. Stage s stores up to
// 2 (K - s) - 1 activations.

#include <algorithm>
#include <cstdint>
#include <utility>

#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

GeneratedLoops eager_one_f_one_b_loops(const Shape& shape) {
  Shape deeper = shape;
  deeper.warmup.clear();
  for (std::int32_t stage = 0; stage < shape.stages; ++stage) {
    deeper.warmup.push_back(std::min(shape.microbatches, 2 * (shape.stages - 1 - stage)));
  }
  return one_f_one_b_loops(deeper).map([](RolledProgram rolled) {
    rolled.program.schedule = "eager-1f1b";
    return rolled;
  });
}

Generated eager_one_f_one_b(const Shape& shape) {
  return eager_one_f_one_b_loops(shape).map(
      [&](RolledProgram rolled) { return spelled_out(std::move(rolled), shape); });
}

}  // namespace penstock
