// GEMS (Jain et al., SC'20): two copies of the model are on the ranks in opposite directions. Even
// microbatches go down the ranks, and odd ones go up. On each rank, a microbatch's forward comes after the
// backward of the previous microbatch, so a rank never stores more than one activation. With 3 ranks and 3
// microbatches:
//
//   rank 0   F0             B0 F1 B1 F2             B2
//   rank 1      F0       B0 F1       B1 F2       B2
//   rank 2         F0 B0 F1             B1 F2 B2
//
// The rule is derived from the published idea: two microbatches at a time, and at most one activation on a
// rank. Chimera's paper (SC'21, Table 2) states the same bubble for it: (K-1)/(K+1/2) with B = 2F. In steady
// state, two microbatches take the time of 4K+2 forwards, and a rank works for 6 of them. The only advantage
// of GEMS is its low memory.
//
// The weights exist twice: stage s is on ranks s and K-1-s. These ranks reduce its gradient at the end.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

Generated gems(const Shape& shape) {
  std::vector<std::int32_t> route{0, 1};
  if (shape.microbatches % 2 !=
      0) {  // the next iteration begins with direction 0, so the route lists a whole iteration
    route.clear();
    for (std::int32_t m = 0; m < shape.microbatches; ++m) route.push_back(m % 2);
  }
  Program program = bidirectional_program("gems", shape, route);
  for (std::int32_t rank = 0; rank < shape.stages; ++rank) {
    auto& list = program.ranks[static_cast<std::size_t>(rank)];
    for (std::int32_t m = 0; m < shape.microbatches; ++m) {
      const std::int32_t stage = m % 2 == 0 ? rank : shape.stages - 1 - rank;
      list.push_back(forward(stage, m));
      list.push_back(backward(stage, m));
    }
  }
  if (shape.replica_sync == ReplicaSync::on) append_reductions(program);
  append_steps(program);
  return program;
}

}  // namespace penstock
