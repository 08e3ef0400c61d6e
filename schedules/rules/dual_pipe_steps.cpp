// The steps of a rank in DualPipe, with h = position and H = depth. X0 is an action of the nearer stream, and
// X1 is one of the farther stream (deepseek-ai/DualPipe, commit 3da1bbea; F0&B1 overlap):
//   1   2(H-h-1)      F0                    5   H-h-1   B1  F1&B0
//   2   h+1           F0 F1                 6   h+1     B1 B0, from the middle on I1 I0
//   3   H-h-1         I1 W F1               7   H-h-1   W I0
//   4   M-2H+h+1      F0&B1  F1&B0          8   h+1     W
// M is the number of microbatches of one stream. W always belongs to the I that has waited longest.

#include "schedules/rules/dual_pipe_steps.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program_parts.hpp"

namespace penstock {
namespace {

/// A list to which the caller appends the next action of a stream. The microbatches of each stream run in
/// order, so counters give their numbers.
class StepList {
 public:
  explicit StepList(const DualPipeRank& rank) : rank_(rank) {}

  void add_forward(std::size_t stream) {
    actions_.push_back(next(ActionKind::forward, stream, forwards_.at(stream)++));
  }
  void add_backward(std::size_t stream) {
    actions_.push_back(next(ActionKind::backward, stream, backwards_.at(stream)++));
  }
  void add_input(std::size_t stream) {
    actions_.push_back(next(ActionKind::backward_input, stream, backwards_.at(stream)++));
    waiting_.push_back(actions_.back());
  }
  void add_weight() {
    Action weight = waiting_.at(weights_++);
    weight.kind = ActionKind::backward_weight;
    actions_.push_back(weight);
  }
  void add_overlapped(std::size_t forward_stream) {
    add_forward(forward_stream);
    actions_.back().overlaps_next = true;
    add_backward(1 - forward_stream);
  }
  const std::vector<Action>& actions() const { return actions_; }

 private:
  Action next(ActionKind kind, std::size_t stream, std::int32_t number) const {
    const DualPipeStream& of = rank_.streams.at(stream);
    return compute(kind, of.stage, of.first_microbatch + number);
  }

  const DualPipeRank& rank_;
  std::array<std::int32_t, 2> forwards_{};
  std::array<std::int32_t, 2> backwards_{};
  std::size_t weights_ = 0;
  /// The actions whose I has run, in order. The first `weights_` of them also have their W in the list.
  std::vector<Action> waiting_;
  std::vector<Action> actions_;
};

/// Appends steps 1 to 3. `beyond` is the number of ranks between this rank and the middle.
void fill(StepList& list, std::int32_t beyond, std::int32_t h) {
  for (std::int32_t i = 0; i < 2 * beyond; ++i) list.add_forward(0);
  for (std::int32_t i = 0; i < h + 1; ++i) {
    list.add_forward(0);
    list.add_forward(1);
  }
  for (std::int32_t i = 0; i < beyond; ++i) {
    list.add_input(1);
    list.add_weight();
    list.add_forward(1);
  }
}

/// Appends steps 4 and 5. Each F of one stream overlaps a B of the other stream. At the end of step 5, the
/// nearer stream has no F left.
void overlap(StepList& list, std::int32_t count, std::int32_t beyond) {
  for (std::int32_t i = 0; i < count; ++i) {
    // On the middle rank, the first backward waits for a message from the neighbour. The neighbour sends it
    // only after it has received this forward, so the two cannot overlap.
    if (i == 0 && beyond == 0) {
      list.add_forward(0);
      list.add_backward(1);
    } else {
      list.add_overlapped(0);
    }
    list.add_overlapped(1);
  }
  for (std::int32_t i = 0; i < beyond; ++i) {
    list.add_backward(1);
    list.add_overlapped(1);
  }
}

/// Appends steps 6 to 8. From the middle of step 6 on, backwards are split into I and W, so that W actions
/// fill the pauses.
void drain(StepList& list, std::int32_t beyond, std::int32_t h) {
  for (std::int32_t i = 0; i < 2 * (h + 1); ++i) {
    const auto stream = static_cast<std::size_t>(1 - i % 2);
    if (i < h + 1) {
      list.add_backward(stream);
    } else {
      list.add_input(stream);
    }
  }
  for (std::int32_t i = 0; i < beyond; ++i) {
    list.add_weight();
    list.add_input(0);
  }
  for (std::int32_t i = 0; i < h + 1; ++i) list.add_weight();
}

}  // namespace

std::vector<Action> dual_pipe_steps(const DualPipeRank& rank) {
  const std::int32_t h = rank.position;
  const std::int32_t beyond = rank.depth - h - 1;
  StepList list(rank);
  fill(list, beyond, h);
  overlap(list, rank.microbatches - 2 * rank.depth + h + 1, beyond);
  drain(list, beyond, h);
  return list.actions();
}

}  // namespace penstock
