// Interleaved schedules with v chunks on a rank, where stage s is on rank s mod K: interleaved, ep-1f1b and
// interleaved-zero-bubble. The first part computes the order of chunks and microbatches that all of
// them follow. gpipe.cpp has looped-bfs, which uses the same placement. Tested by picture_test.cpp and
// conformance_test.cpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

// The order in which a rank of an interleaved schedule runs its v chunks. A group of g microbatches goes
// through all chunks before the next group begins (Megatron-LM, SC'21, section 2.2, with g = K).
//
//   K = 2, v = 2, g = 3, M = 5: microbatch 0 1 2 0 1 2 3 4 3 4
//                               chunk      0 0 0 1 1 1 0 0 1 1
//
// The backward runs the chunks from the last to the first. The order of microbatches is the same.

/// The order of a rank's visits; a visit is one forward or backward of a microbatch on a chunk. All
/// microbatches of a group go through chunk 0, then all go through chunk 1, and so on. The last group may be
/// smaller. The k-th backward uses the chunk that mirrors the chunk of the k-th forward.
class VirtualOrder {
 public:
  VirtualOrder(const Shape& shape, std::int32_t group);

  std::int32_t group() const { return group_; }
  /// Returns M * v, the number of forwards of a rank. This number may need more than 32 bits, and so may the
  /// number k of a forward.
  std::int64_t size() const { return std::int64_t{microbatches_} * chunks_; }
  /// Returns the k-th forward of a rank.
  Action kth_forward(std::int32_t rank, std::int64_t k) const;
  /// Returns the number of visits in one complete group. After so many visits, the order repeats with the
  /// microbatches of the next group. This holds until visit all_whole_groups().
  std::int64_t period() const { return std::int64_t{group_} * chunks_; }
  /// Returns the number of visits in all complete groups together.
  std::int64_t all_whole_groups() const { return microbatches_ / group_ * period(); }
  /// Returns the k-th backward of a rank. `kind` is backward, backward_input or backward_weight.
  Action kth_backward(ActionKind kind, std::int32_t rank, std::int64_t k) const;
  /// Returns the number of consecutive visits that stay in the same chunk and group, counted from the k-th
  /// visit. The number includes the k-th visit. The microbatches of these visits are consecutive.
  std::int32_t rest_of_chunk(std::int64_t k) const { return visit(k).rest; }

 private:
  struct Visit {
    std::int32_t chunk;
    std::int32_t microbatch;
    std::int32_t rest;  // visits to the end of the chunk, including this one
  };
  Visit visit(std::int64_t k) const;

  std::int32_t ranks_;
  std::int32_t chunks_;
  std::int32_t group_;
  std::int32_t microbatches_;
};

/// Returns g, the number of microbatches in a group as PyTorch computes it: M / R with R = max(1, M / K)
/// rounds. Fails if M is not a multiple of R. The message names `schedule` and the nearest M that are
/// possible.
tl::expected<std::int32_t, std::string> pytorch_group(std::string_view schedule, const Shape& shape);

VirtualOrder::VirtualOrder(const Shape& shape, std::int32_t group)
    : ranks_(shape.stages), chunks_(shape.virtual_stages), group_(group), microbatches_(shape.microbatches) {}

VirtualOrder::Visit VirtualOrder::visit(std::int64_t k) const {
  // All earlier groups are complete. The number of visits in them is therefore v times the first microbatch
  // of this group.
  const auto first = static_cast<std::int32_t>(k / period() * group_);
  const std::int32_t size = std::min(group_, microbatches_ - first);
  const std::int64_t within = k - std::int64_t{first} * chunks_;
  const auto past = static_cast<std::int32_t>(within % size);
  return {.chunk = static_cast<std::int32_t>(within / size), .microbatch = first + past, .rest = size - past};
}

Action VirtualOrder::kth_forward(std::int32_t rank, std::int64_t k) const {
  const Visit here = visit(k);
  return forward(here.chunk * ranks_ + rank, here.microbatch);
}

Action VirtualOrder::kth_backward(ActionKind kind, std::int32_t rank, std::int64_t k) const {
  const Visit here = visit(k);
  return compute(kind, (chunks_ - 1 - here.chunk) * ranks_ + rank, here.microbatch);
}

namespace {

/// Returns PyTorch's number of rounds, in each of which one group of microbatches runs. With M < K there is
/// one round.
std::int32_t rounds_of(std::int32_t stages, std::int32_t microbatches) {
  return std::max(1, microbatches / stages);
}

bool takes(std::int32_t stages, std::int32_t microbatches) {
  return microbatches % rounds_of(stages, microbatches) == 0;
}

}  // namespace

tl::expected<std::int32_t, std::string> pytorch_group(std::string_view schedule, const Shape& shape) {
  const std::int32_t rounds = rounds_of(shape.stages, shape.microbatches);
  if (takes(shape.stages, shape.microbatches)) return shape.microbatches / rounds;
  std::int32_t below = shape.microbatches;
  while (!takes(shape.stages, below)) --below;
  std::int32_t above = shape.microbatches;
  while (!takes(shape.stages, above)) ++above;
  return tl::unexpected(fmt::format(
      "microbatches: {} runs {} microbatches on {} ranks in {} rounds, and {} is not a multiple of {}; the "
      "nearest that work are {} and {}",
      schedule, shape.microbatches, shape.stages, rounds, shape.microbatches, rounds, below, above));
}

// Interleaved 1F1B has v model chunks on each rank, so that the bubble is v times smaller (Narayanan et al.,
// SC'21, section 2.2). Microbatches run in groups of g. All microbatches of a group go through chunk 0, then
// all go through chunk 1, and so on. With 2 ranks, v = 2 (stages 0 and 2 on rank 0) and 2 microbatches:
//
//   rank 0   0F0 0F1 2F0 2F1     2B0     2B1 0B0 0B1
//   rank 1       1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1
//
// Without `group_size`, the groups are PyTorch's rounds: R = max(1, M / K) rounds of g = M / R microbatches,
// and M must be a multiple of R. With expert_overlap the lists are those of ep-1f1b below. `group_size` is
// Megatron's microbatch_group_size_per_vp_stage (Megatron-LM, commit d98e8a64). It requires g >= K, and a
// smaller last group must have at least K microbatches. With `group_size`, one group of M < K microbatches is
// also possible. If g = K and M is a multiple of K, both rules are the same.

namespace {

/// Returns true if Megatron-LM's schedule can run in groups of `group` microbatches. One group of all
/// microbatches is always possible: a rank that has finished a chunk waits for the inputs of the next one.
bool megatron_takes(const Shape& shape, std::int32_t group) {
  if (group >= shape.microbatches) return true;
  const std::int32_t rest = shape.microbatches % group;
  return group >= shape.stages && (rest == 0 || rest >= shape.stages);
}

std::string too_small_a_group(std::string_view schedule, const Shape& shape) {
  // The search begins at K, the smallest group size that can be possible. A group size is impossible if it
  // leaves too few microbatches for the last group. The search ends at the latest at one group of M
  // microbatches, which is always possible.
  std::int32_t nearest = std::min(shape.stages, shape.microbatches);
  while (!megatron_takes(shape, nearest)) ++nearest;
  return fmt::format(
      "group_size: {} needs groups of at least as many microbatches as ranks, or a microbatch is "
      "not back in time for its next chunk; got {} with {} ranks; the nearest that works is {}",
      schedule, shape.group_size, shape.stages, nearest);
}

std::string too_small_a_remainder(std::string_view schedule, const Shape& shape) {
  const std::int32_t rest = shape.microbatches % shape.group_size;
  return fmt::format(
      "microbatches: {} in groups of {} leave a last group of {}, and {} needs none or at least {}, "
      "the number of ranks; the nearest that work are {} and {}",
      shape.microbatches, shape.group_size, rest, schedule, shape.stages, shape.microbatches - rest,
      shape.microbatches - rest + shape.stages);
}

tl::expected<std::int32_t, std::string> group_of(std::string_view schedule, const Shape& shape) {
  if (shape.group_size == 0) return pytorch_group(schedule, shape);
  if (megatron_takes(shape, shape.group_size)) {
    return std::min(shape.group_size, shape.microbatches);
  }
  const bool small = shape.group_size < shape.stages;
  return tl::unexpected(small ? too_small_a_group(schedule, shape) : too_small_a_remainder(schedule, shape));
}

/// Returns a rank's runs from visit `from` to visit `to`. Visit k runs the k-th forward and the (k -
/// warmup)-th backward, if they exist. Within a group and chunk, both have consecutive microbatches. A run
/// ends where a group or chunk ends for the forward or the backward. If `in_pairs` is true, a forward and the
/// backward of the same visit are an overlapped pair. Requires that `to` is such an end, the
/// end of the warm-up or the end of the list.
std::vector<ActionRun> runs_between(const VirtualOrder& order, std::int32_t rank, std::int64_t warmup,
                                    bool in_pairs, std::int64_t from, std::int64_t to) {
  std::vector<ActionRun> runs;
  for (std::int64_t k = from; k < to; k += runs.back().count) {
    ActionRun run{.pattern = {}, .count = std::numeric_limits<std::int32_t>::max(), .step = 1};
    if (k < order.size()) {
      run.pattern.push_back({.action = order.kth_forward(rank, k)});
      run.count = order.rest_of_chunk(k);
    }
    if (k < warmup) {
      run.count = static_cast<std::int32_t>(std::min<std::int64_t>(run.count, warmup - k));
    } else {
      if (in_pairs && k < order.size()) run.pattern.back().action.overlaps_next = true;
      run.pattern.push_back({.action = order.kth_backward(ActionKind::backward, rank, k - warmup)});
      run.count = std::min(run.count, order.rest_of_chunk(k - warmup));
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

/// Returns a rank's list in three parts. Only the repetition count of the second part grows with M:
///
///   0 .. warmup            only forwards, about v groups
///   warmup .. + n periods  n times: a group's forwards through all chunks, and a group's backwards
///   .. size + warmup       forwards of a smaller last group, and the remaining backwards
ActionLoops list_of_rank(const VirtualOrder& order, std::int32_t rank, std::int64_t warmup, bool in_pairs) {
  const std::int64_t steady = std::max<std::int64_t>(0, order.all_whole_groups() - warmup);
  const std::int64_t repetitions = steady / order.period();
  const std::int64_t behind = warmup + repetitions * order.period();
  const std::size_t runs_of_a_group = 4 * index(order.period() / order.group());
  const auto runs = [&](std::int64_t from, std::int64_t to) {
    return runs_between(order, rank, warmup, in_pairs, from, to);
  };
  ActionLoops list = folded(runs(0, warmup), runs_of_a_group);
  if (repetitions > 0) {
    list.append({.runs = runs(warmup, warmup + order.period()),
                 .count = static_cast<std::int32_t>(repetitions),
                 .step = order.group()});
  }
  const ActionLoops drain = folded(runs(behind, order.size() + warmup), runs_of_a_group);
  for (const RunLoop& loop : drain.loops()) list.append(loop);
  return list;
}

/// Returns the lists of interleaved 1F1B under the name of a schedule. If `in_pairs` is true, each F of the
/// steady state and the B behind it are an overlapped pair.
GeneratedLoops alternating_loops(std::string_view schedule, const Shape& shape, bool in_pairs) {
  const auto group = group_of(schedule, shape);
  if (!group) return tl::unexpected(group.error());
  RolledProgram rolled = with_empty_loops(looped_program(std::string(schedule), shape));
  const VirtualOrder order(shape, *group);
  for (std::int32_t rank = 0; rank < shape.stages; ++rank) {
    const std::int64_t warmup =
        std::min(order.size(), std::int64_t{shape.virtual_stages - 1} * order.group() +
                                   2 * std::int64_t{shape.stages - 1 - rank} + (in_pairs ? 1 : 0));
    rolled.lists[index(rank)] = list_of_rank(order, rank, warmup, in_pairs);
  }
  append_steps(rolled);
  return rolled;
}

}  // namespace

ShapeCheck interleaved_takes(const Shape& shape) {
  return group_of("interleaved", shape).map([](std::int32_t) {});
}

GeneratedLoops interleaved_loops(const Shape& shape) {
  return alternating_loops("interleaved", shape, shape.expert_overlap);
}

Generated interleaved(const Shape& shape) {
  return interleaved_loops(shape).map(
      [&](RolledProgram rolled) { return spelled_out(std::move(rolled), shape); });
}

// EP-1F1B (Megatron-LM's combined_1f1b, with --overlap-moe-expert-parallel-comm) is interleaved 1F1B for
// models with experts. In the steady state, each F and the B after it are one overlapped pair. The exchange
// of tokens in one of them then runs at the same time as the computation of the other.
// scenarios/pricing/layer_terms.hpp has the order inside a pair. A pair waits for the inputs of both actions,
// so each rank needs one more warm-up forward. Rank r runs 2(K - r
// - 1) + (v - 1) g + 1 forwards before its first backward. With 2 ranks, v = 2 and 2 microbatches:
//
//   rank 0   0F0 0F1 2F0 2F1         2B0 2B1 0B0 0B1
//   rank 1       1F0 1F1 3F0 3F1&3B0 3B1 1B0 1B1
//
// The groups of microbatches are those of interleaved(). Without experts, a pair takes as long as its two
// actions in sequence. The schedule then only needs more memory than interleaved(). A pair cannot contain an
// R.

ShapeCheck ep_one_f_one_b_takes(const Shape& shape) {
  return group_of("ep-1f1b", shape).map([](std::int32_t) {});
}

GeneratedLoops ep_one_f_one_b_loops(const Shape& shape) { return alternating_loops("ep-1f1b", shape, true); }

Generated ep_one_f_one_b(const Shape& shape) {
  return ep_one_f_one_b_loops(shape).map(
      [&](RolledProgram rolled) { return spelled_out(std::move(rolled), shape); });
}

// Interleaved zero bubble (PyTorch's ScheduleInterleavedZeroBubble; ZB-1P of Qi et al., ICLR'24, with v
// chunks on each rank) is interleaved 1F1B with two changes. Backwards are split into I and W, and the
// additional warm-up is half as long. Rank r delays each W by r visits. With 2 ranks, v = 2 (stages 0 and 2
// on rank 0) and 2 microbatches:
//
//   rank 0   0F0 0F1 2F0 2F1     2I0 2W0 2I1 2W1 0I0 0W0 0I1 0W1
//   rank 1       1F0 1F1 3F0 3I0 3F1 3I1 3W0 1I0 3W1 1I1 1W0 1W1
//
// Each rank stores at most (v-1) g + K activations. If M is a multiple of K, this is K * v. M must be a
// multiple of the number of rounds R = max(1, M / K), as for interleaved().

ShapeCheck interleaved_zero_bubble_takes(const Shape& shape) {
  return pytorch_group("interleaved-zero-bubble", shape).map([](std::int32_t) {});
}

Generated interleaved_zero_bubble(const Shape& shape) {
  const auto group = pytorch_group("interleaved-zero-bubble", shape);
  if (!group) return tl::unexpected(group.error());
  Program program = looped_program("interleaved-zero-bubble", shape);
  const VirtualOrder order(shape, *group);
  reserve_actions(program, 3 * order.size());
  for (std::int32_t rank = 0; rank < shape.stages; ++rank) {
    const std::int64_t warmup = std::min(
        order.size(), std::int64_t{shape.virtual_stages - 1} * order.group() + shape.stages - 1 - rank);
    auto& list = program.ranks[static_cast<std::size_t>(rank)];
    std::int64_t next_weight = 0;
    for (std::int64_t k = 0; k < order.size() + warmup; ++k) {
      if (k < order.size()) list.push_back(order.kth_forward(rank, k));
      if (k < warmup) continue;
      list.push_back(order.kth_backward(ActionKind::backward_input, rank, k - warmup));
      if (k - warmup < rank) continue;
      list.push_back(order.kth_backward(ActionKind::backward_weight, rank, next_weight++));
    }
    while (next_weight < order.size()) {
      list.push_back(order.kth_backward(ActionKind::backward_weight, rank, next_weight++));
    }
  }
  append_steps(program);
  insert_recompute(program, shape);
  return program;
}

}  // namespace penstock
