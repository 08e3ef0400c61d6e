// PipeDream-2BW (Narayanan et al., ICML'21, section 3): 1F1B with two versions of the weights and without a
// flush between minibatches of M microbatches. Minibatch t > 0 runs forward and backward with the weights
// after t-1 updates: W(t+1) = W(t) - lr grad(W(t-1)). With 2 stages and two minibatches of 2 microbatches:
//
//   rank 0   F0 F1    B0 F2 B1 F3 B2    B3
//   rank 1      F0 B0 F1 B1 F2 B2 F3 B3
//
// One list holds the minibatches of all `iterations`, as for 1f1b-rr. A STEP follows every M-th backward. The
// paper requires M >= K. In this rule, fewer microbatches shorten the warm-up to M. A forward is then at most
// one minibatch ahead of the backwards of its stage, so two versions are sufficient.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

Generated pipedream_2bw(const Shape& shape) {
  Program program = looped_program("pipedream-2bw", shape);
  program.microbatches = shape.microbatches * shape.iterations;
  program.iterations = 1;
  program.update = UpdateRule::double_buffered;
  const auto version = [&](std::int32_t m) { return std::max(0, m / shape.microbatches - 1); };
  for (std::int32_t stage = 0; stage < shape.stages; ++stage) {
    const std::int32_t warmup = std::min(shape.microbatches, shape.stages - 1 - stage);
    auto& list = program.ranks[static_cast<std::size_t>(stage)];
    for (std::int32_t k = 0; k < program.microbatches + warmup; ++k) {
      if (k < program.microbatches) list.push_back(forward(stage, k, version(k)));
      if (k < warmup) continue;
      const std::int32_t m = k - warmup;
      list.push_back(backward(stage, m, version(m)));
      if ((m + 1) % shape.microbatches == 0) list.push_back(whole_stage(ActionKind::step, stage));
    }
  }
  return program;
}

}  // namespace penstock
