// Sequence-sliced 1F1B (Sun et al., "Seq1F1B", arXiv 2406.03488): each microbatch is cut into q slices along
// the sequence, and 1F1B runs over slices. With causal attention, a slice's forward needs all earlier slices,
// and its backward needs all later ones. Within a microbatch, forwards therefore run in ascending order and
// backwards in descending order. With 2 stages, 2 microbatches and q = 2 (units 0 and 1 are the slices of
// microbatch 0):
//
//   rank 0   F0 F1 F2    B1 F3 B0    B3 B2
//   rank 1      F0 F1 B1 F2 B0 F3 B3 B2
//
// Stage s runs K - 1 - s + q - 1 warm-up forwards. It stores at most one slice more than that. q = 1 is 1F1B.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

Generated seq_one_f_one_b(const Shape& shape) {
  Program program = looped_program("seq-1f1b", shape);
  program.slices = shape.slices;
  const std::int32_t units = program.unit_count();
  const std::int32_t last_slice = shape.slices - 1;
  for (std::int32_t stage = 0; stage < shape.stages; ++stage) {
    const std::int32_t warmup = std::min(units, shape.stages - 1 - stage + last_slice);
    auto& list = program.ranks[static_cast<std::size_t>(stage)];
    for (std::int32_t k = 0; k < units + warmup; ++k) {
      if (k < units) list.push_back(forward(stage, k));
      if (k < warmup) continue;
      const std::int32_t slice = (k - warmup) % shape.slices;
      list.push_back(backward(stage, k - warmup - slice + last_slice - slice));
    }
  }
  append_steps(program);
  insert_recompute(program, shape);
  return program;
}

}  // namespace penstock
