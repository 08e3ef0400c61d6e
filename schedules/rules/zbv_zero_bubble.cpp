// ZB-V as a fixed pattern (PyTorch's ScheduleZBVZeroBubble; Qi et al. proposed the V placement). The model
// goes down the ranks and comes back up, so rank r has stages c0 = r and c1 = 2K-1-r, and rank 0 computes the
// loss. With 2 ranks and 3 microbatches:
//
//   rank 0   0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0W0 3F2 3I2 3W2 0I1 0W1 0I2 0W2
//   rank 1       1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1I1 2I2 1I2 1W1 2W2 1W2
//
// The pattern is made for n = max(M, 2K - 1) microbatches, and actions of microbatches beyond M are left out.
// If F, I and W take equally long and M >= 2K - 1, no rank pauses between its first and last action. A rank
// stores at most 2K activations. This is the memory of 1F1B, whose single chunk is twice as large.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {
namespace {

/// A list to which the caller appends the next microbatch's action of a chunk. It leaves out microbatches
/// beyond M.
class PatternList {
 public:
  PatternList(std::int32_t first_stage, std::int32_t second_stage, std::int32_t microbatches)
      : chunks_{{.stage = first_stage}, {.stage = second_stage}}, microbatches_(microbatches) {}

  void add_forward(std::size_t chunk) { add(ActionKind::forward, chunk, chunks_[chunk].forwards++); }
  void add_input(std::size_t chunk) { add(ActionKind::backward_input, chunk, chunks_[chunk].inputs++); }
  void add_weight(std::size_t chunk) { add(ActionKind::backward_weight, chunk, chunks_[chunk].weights++); }
  void add_both(std::size_t chunk) {
    add_input(chunk);
    add_weight(chunk);
  }
  std::int32_t forwards(std::size_t chunk) const { return chunks_[chunk].forwards; }
  void add_weights_until(std::size_t chunk, std::int32_t count) {
    while (chunks_[chunk].weights < count) add_weight(chunk);
  }
  const std::vector<Action>& actions() const { return actions_; }

 private:
  struct Chunk {
    std::int32_t stage = 0;
    std::int32_t forwards = 0;
    std::int32_t inputs = 0;
    std::int32_t weights = 0;
  };

  void add(ActionKind kind, std::size_t chunk, std::int32_t microbatch) {
    if (microbatch < microbatches_) actions_.push_back(compute(kind, chunks_[chunk].stage, microbatch));
  }

  std::vector<Chunk> chunks_;
  std::int32_t microbatches_;
  std::vector<Action> actions_;
};

/// Returns a rank's list. Chunk 0 is on the way down the ranks, and chunk 1 is on the way up. Rank 0 of 2,
/// with n = 3:
///
///   0F0 0F1 0F2 | 3F0 3I0 3W0 3F1 3I1 3W1 | 0I0 0W0 3F2 3I2 3W2 | 0I1 0W1 0I2 0W2
///   forwards      first backwards           both chunks           the rest
std::vector<Action> zbv_actions(const Shape& shape, std::int32_t rank) {
  const std::int32_t pattern = std::max(shape.microbatches, 2 * shape.stages - 1);
  const std::int32_t after = shape.stages - rank;
  PatternList list(rank, 2 * shape.stages - 1 - rank, shape.microbatches);
  // These microbatches pass this rank before the first one returns to it from the end of the V.
  for (std::int32_t i = 0; i < 2 * after - 1; ++i) list.add_forward(0);
  for (std::int32_t i = 0; i < rank; ++i) {
    list.add_forward(1);
    list.add_forward(0);
  }
  for (std::int32_t i = 0; i < after; ++i) {
    list.add_forward(1);
    list.add_both(1);
  }
  while (list.forwards(1) < list.forwards(0) || list.forwards(0) < pattern) {
    if (list.forwards(0) < pattern) list.add_forward(0);
    list.add_both(0);
    list.add_forward(1);
    list.add_both(1);
  }
  for (std::int32_t i = 0; i < rank; ++i) {
    list.add_input(0);
    list.add_input(1);
  }
  for (std::int32_t i = 0; i < after; ++i) list.add_both(0);
  list.add_weights_until(1, pattern);
  list.add_weights_until(0, pattern);
  return list.actions();
}

}  // namespace

Generated zbv_zero_bubble(const Shape& shape) {
  Program program = zigzag_program("zbv-zero-bubble", shape);
  for (std::int32_t rank = 0; rank < shape.stages; ++rank) {
    program.ranks[static_cast<std::size_t>(rank)] = zbv_actions(shape, rank);
  }
  append_steps(program);
  insert_recompute(program, shape);
  return program;
}

}  // namespace penstock
