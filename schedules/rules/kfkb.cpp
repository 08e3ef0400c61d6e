// kFkB (Ada-Grouper, arXiv 2303.01675) is 1F1B over groups of k microbatches. A rank runs k forwards of a
// group or k backwards of a group without a change. Before the first backward it runs one group of forwards
// for every later stage. With 3 stages, 6 microbatches and k = 2:
//
//   rank 0   F0 F1 F2 F3 F4 F5 B0 B1       B2 B3       B4 B5
//   rank 1      F0 F1 F2 F3 B0 B1 F4 F5 B2 B3       B4 B5
//   rank 2         F0 F1 B0 B1 F2 F3 B2 B3 F4 F5 B4 B5
//
// While a rank computes a microbatch of a group, the activation of the previous one is in transfer, so
// computation hides the transfers. In 1F1B a rank waits for each transfer. If transfers take no time, the
// total time equals that of 1F1B. Stage s stores up to k (K - s) activations. k = 1 is 1F1B, and k = M has
// the order of GPipe. The last group may be smaller.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {
namespace {

/// Returns the list in which each action of a group is replaced by one action for each microbatch of the
/// group.
std::vector<Action> over_microbatches(const std::vector<Action>& list, std::int32_t group,
                                      std::int32_t microbatches) {
  std::vector<Action> actions;
  actions.reserve(list.size() * index(group));
  for (Action action : list) {
    if (!has_microbatch(action.kind)) {
      actions.push_back(action);
      continue;
    }
    const std::int32_t first = action.microbatch * group;
    for (std::int32_t m = first; m < std::min(first + group, microbatches); ++m) {
      action.microbatch = m;
      actions.push_back(action);
    }
  }
  return actions;
}

}  // namespace

std::int32_t kfkb_group(const Shape& shape) {
  return std::min(shape.microbatches, shape.group_size > 0 ? shape.group_size : 2);
}

Generated kfkb(const Shape& shape) {
  const std::int32_t group = kfkb_group(shape);
  // The list is made by 1F1B with one microbatch for each group. Then each of these microbatches becomes k
  // microbatches.
  Shape groups = shape;
  groups.microbatches = (shape.microbatches + group - 1) / group;
  groups.checkpoint =
      Checkpoint::never;  // R belongs to a single microbatch, so R actions are inserted afterwards
  return one_f_one_b(groups).map([&](Program program) {
    program.schedule = "kfkb";
    program.microbatches = shape.microbatches;
    for (auto& list : program.ranks) list = over_microbatches(list, group, shape.microbatches);
    insert_recompute(program, shape);
    return program;
  });
}

}  // namespace penstock
