// DualPipe and DualPipeV. Two streams of microbatches go through the ranks in opposite directions, and an
// F of one stream overlaps a B of the other. both_directions.cpp has the schedules without this overlap.
// The first part makes the eight steps of a rank, which both schedules share. Tested by picture_test.cpp
// and conformance_test.cpp.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

// Makes the list of a rank in DualPipe and DualPipeV. Both schedules share its eight steps.

/// One of the two streams of microbatches that pass through a rank.
struct DualPipeStream {
  /// The rank's stage in this stream.
  std::int32_t stage = 0;
  /// The first microbatch of the stream. The microbatches of a stream have consecutive numbers.
  std::int32_t first_microbatch = 0;
};

/// A rank of DualPipe. `streams[0]` is the stream that enters the pipeline at the end nearer to this rank.
struct DualPipeRank {
  std::array<DualPipeStream, 2> streams;
  /// The number of microbatches in each stream, at least 2 * depth.
  std::int32_t microbatches = 0;
  /// The number of ranks from an end of the pipeline to its middle: half of all ranks.
  std::int32_t depth = 0;
  /// The number of ranks between this rank and the nearer end of the pipeline.
  std::int32_t position = 0;
};

/// Returns the compute actions of the rank, in order. Requires microbatches >= 2 * depth.
std::vector<Action> dual_pipe_steps(const DualPipeRank& rank);

// The steps of a rank in DualPipe, with h = position and H = depth. X0 is an action of the nearer stream, and
// X1 is one of the farther stream (deepseek-ai/DualPipe, commit 3da1bbea; F0&B1 overlap):
//   1   2(H-h-1)      F0                    5   H-h-1   B1  F1&B0
//   2   h+1           F0 F1                 6   h+1     B1 B0, from the middle on I1 I0
//   3   H-h-1         I1 W F1               7   H-h-1   W I0
//   4   M-2H+h+1      F0&B1  F1&B0          8   h+1     W
// M is the number of microbatches of one stream. Each W belongs to the I that has waited longest for its W.

namespace {

/// A builder of one rank's list. The caller names the kind and the stream of the next action. The
/// microbatches of each stream run in order, so a counter for each kind of action gives their numbers.
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
  /// The I actions (gradient of the input) in the list, in order. The W (gradient of the weights) of the
  /// first `weights_` of them is in the list, too.
  std::vector<Action> waiting_;
  std::vector<Action> actions_;
};

/// Appends steps 1 to 3 of DualPipe. `beyond` is the number of ranks between this rank and the middle.
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

/// Appends steps 4 and 5 of DualPipe. Each F of one stream overlaps a B of the other stream. At the end of
/// step 5, the nearer stream has no F left.
void overlap(StepList& list, std::int32_t count, std::int32_t beyond) {
  for (std::int32_t i = 0; i < count; ++i) {
    // On the middle rank, the first backward needs a message of the neighbour. The neighbour sends it only
    // after it has received the activation of this forward, so the two cannot overlap.
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

/// Appends steps 6 to 8 of DualPipe. From the middle of step 6 on, backwards are split into I and W
/// (gradients of the input and of the weights). The Ws then fill idle time.
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

// DualPipe (DeepSeek-V3 technical report, section 3.2.1; deepseek-ai/DualPipe, commit 3da1bbea). Two streams
// of M/2 microbatches enter the pipeline at its two ends. Each rank therefore has one stage of each stream,
// and overlaps a forward of one stream with a backward of the other. With 2 ranks and 4 microbatches (0 and 1
// enter at rank 0, 2 and 3 at rank 1; F3&B0 overlap):
//
//   rank 0   F0 F2 F1 B2 F3&B0 B3 I1 W1
//   rank 1   F2 F0 F3 B0 F1&B2 B1 I3 W3
//
// The weights exist twice: stage s is on ranks s and K-1-s. These ranks reduce its gradient after their last
// W. A rank stores at most K + 1 activations. K and M must be even, and M must be at least 2 K.

ShapeCheck dual_pipe_takes(const Shape& shape) {
  if (shape.stages % 2 != 0) {
    return tl::unexpected(
        fmt::format("stages: dualpipe lets two streams meet between two ranks, so it needs an even number of "
                    "ranks; got {}; the nearest that work are {}",
                    shape.stages,
                    shape.stages == 1 ? "2" : fmt::format("{} and {}", shape.stages - 1, shape.stages + 1)));
  }
  const std::int32_t least = 2 * shape.stages;
  if (shape.microbatches < least) {
    return tl::unexpected(fmt::format(
        "microbatches: dualpipe needs at least 2 x stages = {}, half of them for each direction; got "
        "{}; the nearest that works is {}",
        least, shape.microbatches, least));
  }
  if (shape.microbatches % 2 != 0) {
    const std::int32_t below = shape.microbatches - 1;
    return tl::unexpected(
        fmt::format("microbatches: dualpipe needs an even number, half of them for each direction; got {}; "
                    "the nearest that work are {} and {}",
                    shape.microbatches, below, shape.microbatches + 1));
  }
  return {};
}

Generated dual_pipe(const Shape& shape) {
  if (auto taken = dual_pipe_takes(shape); !taken) return tl::unexpected(taken.error());
  const std::int32_t half = shape.microbatches / 2;
  std::vector<std::int32_t> route(static_cast<std::size_t>(shape.microbatches), 0);
  std::fill(route.begin() + half, route.end(), 1);
  Program program = bidirectional_program("dualpipe", shape, route);
  for (std::int32_t rank = 0; rank < shape.stages; ++rank) {
    const std::int32_t mirror = shape.stages - 1 - rank;
    const DualPipeStream down{.stage = rank, .first_microbatch = 0};
    const DualPipeStream up{.stage = mirror, .first_microbatch = half};
    // The stream that enters at the nearer end comes first. This is `down` for the first half of the ranks
    // and `up` for the second half.
    const bool near_top = rank < mirror;
    program.ranks[static_cast<std::size_t>(rank)] =
        dual_pipe_steps({.streams = {near_top ? down : up, near_top ? up : down},
                         .microbatches = half,
                         .depth = shape.stages / 2,
                         .position = std::min(rank, mirror)});
  }
  append_reductions(program);
  append_steps(program);
  return program;
}

// DualPipeV (deepseek-ai/DualPipe, commit 3da1bbea; PyTorch's ScheduleDualPipeV) is DualPipe cut in half. The
// model goes down the ranks and back up, so rank r has stages r and 2K-1-r. The two streams of DualPipe
// become the two chunks of one stream. With 2 ranks and 4 microbatches (0F3&3B1 overlap):
//
//   rank 0   0F0 0F1 0F2 3F0 3I0 3W0 3F1 0F3&3B1 3F2&0B0 3B2     3F3&0B1 3B3 0I2 0W2 0I3 0W3
//   rank 1       1F0 2F0 1F1 2F1 1F2 2B0 2F2&1B0 1F3&2B1 2F3&1B1 2B2     1B2 2I3 1I3 2W3 1W3
//
// The weights exist once. A rank stores at most 2K + 1 activations. M must be at least 2K, the number of
// stages.

ShapeCheck dual_pipe_v_takes(const Shape& shape) {
  const std::int32_t stages = 2 * shape.stages;
  if (shape.microbatches < stages) {
    return tl::unexpected(fmt::format(
        "microbatches: dualpipe-v needs at least as many as the model has stages, 2 x {} = {}; got {}; "
        "the nearest that works is {}",
        shape.stages, stages, shape.microbatches, stages));
  }
  return {};
}

Generated dual_pipe_v(const Shape& shape) {
  if (auto taken = dual_pipe_v_takes(shape); !taken) return tl::unexpected(taken.error());
  const std::int32_t stages = 2 * shape.stages;
  Program program = zigzag_program("dualpipe-v", shape);
  for (std::int32_t rank = 0; rank < shape.stages; ++rank) {
    program.ranks[static_cast<std::size_t>(rank)] =
        dual_pipe_steps({.streams = {DualPipeStream{.stage = rank}, {.stage = stages - 1 - rank}},
                         .microbatches = shape.microbatches,
                         .depth = shape.stages,
                         .position = rank});
  }
  append_steps(program);
  return program;
}

}  // namespace penstock
