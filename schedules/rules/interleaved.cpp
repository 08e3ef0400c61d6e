// Interleaved 1F1B has v model chunks on each rank, so that the bubble is v times smaller (Narayanan et al.,
// SC'21, section 2.2). Microbatches run in groups of g. All microbatches of a group go through chunk 0, then
// all go through chunk 1, and so on. With 2 ranks, v = 2 (stages 0 and 2 on rank 0) and 2 microbatches:
//
//   rank 0   0F0 0F1 2F0 2F1     2B0     2B1 0B0 0B1
//   rank 1       1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1
//
// Without `group_size`, the groups are PyTorch's rounds: R = max(1, M / K) rounds of g = M / R microbatches,
// and M must be a multiple of R. `group_size` is Megatron's microbatch_group_size_per_vp_stage (Megatron-LM,
// commit d98e8a64). It requires g >= K, and a smaller last group must have at least K microbatches. With
// `group_size`, one group of M < K microbatches is also possible. If g = K and M is a multiple of K, both
// rules are the same.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/rules/virtual_order.hpp"

namespace penstock {
namespace {

/// Returns true if groups of `group` microbatches are possible. One group of all microbatches is always
/// possible: a rank that has finished a chunk waits for the inputs of the next one.
bool megatron_takes(const Shape& shape, std::int32_t group) {
  if (group >= shape.microbatches) return true;
  const std::int32_t rest = shape.microbatches % group;
  return group >= shape.stages && (rest == 0 || rest >= shape.stages);
}

std::string too_small_a_group(const Shape& shape) {
  // The search begins at K, the smallest possible group. Its last group may be too small. The search ends at
  // one group of M microbatches, which is always possible.
  std::int32_t nearest = std::min(shape.stages, shape.microbatches);
  while (!megatron_takes(shape, nearest)) ++nearest;
  return fmt::format(
      "group_size: interleaved needs groups of at least as many microbatches as ranks, or a microbatch is "
      "not back in time for its next chunk; got {} with {} ranks; the nearest that works is {}",
      shape.group_size, shape.stages, nearest);
}

std::string too_small_a_remainder(const Shape& shape) {
  const std::int32_t rest = shape.microbatches % shape.group_size;
  return fmt::format(
      "microbatches: {} in groups of {} leave a last group of {}, and interleaved needs none or at least {}, "
      "the number of ranks; the nearest that work are {} and {}",
      shape.microbatches, shape.group_size, rest, shape.stages, shape.microbatches - rest,
      shape.microbatches - rest + shape.stages);
}

tl::expected<std::int32_t, std::string> group_of(const Shape& shape) {
  if (shape.group_size == 0) return pytorch_group("interleaved", shape);
  if (megatron_takes(shape, shape.group_size)) {
    return std::min(shape.group_size, shape.microbatches);
  }
  const bool small = shape.group_size < shape.stages;
  return tl::unexpected(small ? too_small_a_group(shape) : too_small_a_remainder(shape));
}

/// Returns a rank's runs from visit `from` to visit `to`. Visit k runs the k-th forward and the (k -
/// warmup)-th backward, if they exist. Within a group and chunk, both have consecutive microbatches. A run
/// ends where a group or chunk ends for the forward or the backward. Requires that `to` is such an end, the
/// end of the warm-up or the end of the list.
std::vector<ActionRun> runs_between(const VirtualOrder& order, std::int32_t rank, std::int64_t warmup,
                                    std::int64_t from, std::int64_t to) {
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
ActionLoops list_of_rank(const VirtualOrder& order, std::int32_t rank, std::int64_t warmup) {
  const std::int64_t steady = std::max<std::int64_t>(0, order.all_whole_groups() - warmup);
  const std::int64_t repetitions = steady / order.period();
  const std::int64_t behind = warmup + repetitions * order.period();
  const std::size_t runs_of_a_group = 4 * index(order.period() / order.group());
  ActionLoops list = folded(runs_between(order, rank, warmup, 0, warmup), runs_of_a_group);
  if (repetitions > 0) {
    list.append({.runs = runs_between(order, rank, warmup, warmup, warmup + order.period()),
                 .count = static_cast<std::int32_t>(repetitions),
                 .step = order.group()});
  }
  const std::vector<ActionRun> rest = runs_between(order, rank, warmup, behind, order.size() + warmup);
  const ActionLoops drain = folded(rest, runs_of_a_group);
  for (const RunLoop& loop : drain.loops()) list.append(loop);
  return list;
}

}  // namespace

ShapeCheck interleaved_takes(const Shape& shape) {
  return group_of(shape).map([](std::int32_t) {});
}

GeneratedLoops interleaved_loops(const Shape& shape) {
  const auto group = group_of(shape);
  if (!group) return tl::unexpected(group.error());
  RolledProgram rolled = with_empty_loops(looped_program("interleaved", shape));
  const VirtualOrder order(shape, *group);
  for (std::int32_t rank = 0; rank < shape.stages; ++rank) {
    const std::int64_t warmup =
        std::min(order.size(), std::int64_t{shape.virtual_stages - 1} * order.group() +
                                   2 * std::int64_t{shape.stages - 1 - rank});
    rolled.lists[index(rank)] = list_of_rank(order, rank, warmup);
  }
  append_steps(rolled);
  return rolled;
}

Generated interleaved(const Shape& shape) {
  return interleaved_loops(shape).map(
      [&](RolledProgram rolled) { return spelled_out(std::move(rolled), shape); });
}

}  // namespace penstock
