// Interleaved 1F1B: v model chunks a rank, so that the bubble shrinks by v (Narayanan et al., SC'21,
// section 2.2). Microbatches pass in groups of g; inside a group all go through chunk 0, then all
// through chunk 1, ... With 2 ranks, v = 2 (stages 0 and 2 on rank 0), 2 microbatches:
//
//   rank 0   0F0 0F1 2F0 2F1     2B0     2B1 0B0 0B1
//   rank 1       1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1
//
// Groups are PyTorch's rounds unless `group_size` is given: R = max(1, M / K) rounds of g = M / R, and M must
// be a multiple of R. `group_size` is Megatron's microbatch_group_size_per_vp_stage: K <= g, and a smaller
// last group of at least K microbatches (Megatron-LM, commit d98e8a64); there one group of M < K works, too.
// For g = K and M a multiple of K the two are the same.

#include <algorithm>
#include <cstddef>
#include <cstdint>
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

bool megatron_takes(const Shape& shape, std::int32_t microbatches, std::int32_t group) {
  if (group >= microbatches) return true;
  const std::int32_t rest = microbatches % group;
  return group >= shape.stages && (rest == 0 || rest >= shape.stages);
}

std::string too_small_a_group(const Shape& shape) {
  return fmt::format(
      "group_size: interleaved needs groups of at least as many microbatches as ranks, or a microbatch is "
      "not back in time for its next chunk; got {} with {} ranks; the nearest that works is {}",
      shape.group_size, shape.stages, shape.stages);
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
  if (megatron_takes(shape, shape.microbatches, shape.group_size)) {
    return std::min(shape.group_size, shape.microbatches);
  }
  const bool small = shape.group_size < shape.stages;
  return tl::unexpected(small ? too_small_a_group(shape) : too_small_a_remainder(shape));
}

/// Forwards and backwards are progressions of microbatches, one a group and chunk; where either begins a new
/// one, a run ends.
std::vector<ActionRun> runs_of_rank(const VirtualOrder& order, std::int32_t rank, std::int32_t warmup) {
  std::vector<ActionRun> runs;
  for (std::int32_t k = 0; k < order.size() + warmup; k += runs.back().count) {
    ActionRun run{.pattern = {}, .count = order.size() + warmup - k, .step = 1};
    if (k < order.size()) {
      run.pattern.push_back({.action = order.kth_forward(rank, k)});
      run.count = order.rest_of_chunk(k);
    }
    if (k < warmup) {
      run.count = std::min(run.count, warmup - k);
    } else {
      run.pattern.push_back({.action = order.kth_backward(ActionKind::backward, rank, k - warmup)});
      run.count = std::min(run.count, order.rest_of_chunk(k - warmup));
    }
    runs.push_back(std::move(run));
  }
  return runs;
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
  const std::size_t runs_of_a_group = 4 * index(shape.virtual_stages);
  for (std::int32_t rank = 0; rank < shape.stages; ++rank) {
    const std::int32_t warmup =
        std::min(order.size(), (shape.virtual_stages - 1) * order.group() + 2 * (shape.stages - 1 - rank));
    rolled.lists[index(rank)] = folded(runs_of_rank(order, rank, warmup), runs_of_a_group);
  }
  append_steps(rolled);
  return rolled;
}

Generated interleaved(const Shape& shape) {
  return interleaved_loops(shape).map(
      [&](RolledProgram rolled) { return spelled_out(std::move(rolled), shape); });
}

}  // namespace penstock
