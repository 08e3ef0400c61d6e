// Checks whether a streamed walk can run a program. The checks read the patterns of the loops, which
// contain all kinds of actions, and the costs. They do not go through the repetitions, so they are fast
// for programs of any length.

#include "sim/engines/streamed_walk.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/rank_ledger.hpp"

namespace penstock {
namespace {

/// Returns true if the predicate is true for some action of the lists.
template <class Is>
bool any_action(std::span<const ActionLoops> lists, const Is& is) {
  const auto in_run = [&](const ActionRun& run) {
    return std::ranges::any_of(run.pattern, [&](const PatternAction& here) { return is(here.action); });
  };
  return std::ranges::any_of(lists, [&](const ActionLoops& list) {
    return std::ranges::any_of(list.loops(),
                               [&](const RunLoop& loop) { return std::ranges::any_of(loop.runs, in_run); });
  });
}

/// Returns the numbers of the first two and the last two of `count` repetitions. If a linear value does not
/// decrease between these, it decreases nowhere.
std::vector<std::int32_t> ends_of(std::int32_t count) {
  if (count <= 4) {
    std::vector<std::int32_t> all(index(count));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  return {0, 1, count - 2, count - 1};
}

/// The highest weight version that an F of each stage has used so far, by stage.
using NewestVersions = std::map<std::int32_t, std::int32_t>;

/// Checks the weight versions of a run of actions in repetition `outer` of the loop around it. Updates
/// `newest`. Returns false if the version that a stage's F uses decreases.
bool versions_rise(const ActionRun& run, std::int32_t outer, NewestVersions& newest) {
  for (const std::int32_t inner : ends_of(run.count)) {
    for (const PatternAction& here : run.pattern) {
      if (here.action.kind != ActionKind::forward) continue;
      const std::int32_t moved = inner * here.version_step + outer * here.outer_version_step;
      std::int32_t& known = newest[here.action.stage];
      if (here.action.weight_version + moved < known) return false;
      known = here.action.weight_version + moved;
    }
  }
  return true;
}

/// Returns true if the weight versions that each stage's F uses never decrease in the list. LaterForwards
/// reads a list only forwards. If a later F used an older version again, this version would already be
/// released.
bool all_versions_rise(const ActionLoops& list) {
  NewestVersions newest;
  return std::ranges::all_of(list.loops(), [&](const RunLoop& loop) {
    return std::ranges::all_of(ends_of(loop.count), [&](std::int32_t outer) {
      return std::ranges::all_of(loop.runs,
                                 [&](const ActionRun& run) { return versions_rise(run, outer, newest); });
    });
  });
}

}  // namespace

bool takes_time(const StageCost& cost) {
  return std::min({cost.forward_ns, cost.backward_ns, cost.backward_input_ns, cost.backward_weight_ns}) > 0;
}

bool has_bytes(const EdgeCost& edge) { return edge.activation > 0 || edge.gradient > 0; }

std::optional<std::string> not_streamed(const Experiment& experiment, std::span<const ActionLoops> lists) {
  const Program& program = experiment.program;
  const ChannelOptions& channels = experiment.channels;
  if (channels.blocking == Blocking::each) return "blocking channels";
  if (channels.blocking == Blocking::batched) return "transfers in groups";
  if (channels.capacity > 0) return "channels of a capacity";
  if (channels.eager_bytes > 0) return "eager messages";
  if (channels.launch_order) return "a launch order";
  if (!experiment.costs.launch.is_free()) return "hosts that launch";
  if (program.sharding > 0) return "sharded stages";
  if (program.iterations > 1) return "iterations of a pass";
  if (experiment.costs.microbatches_differ()) return "microbatches that differ";
  if (holds_local_activations(program, experiment.costs)) return "outputs that a rank holds for itself";
  if (any_action(lists, [](const Action& action) { return action.kind == ActionKind::recompute; }))
    return "recomputation";
  if (any_action(lists, [](const Action& action) { return gathers_or_drops(action.kind); }))
    return "gathered weights";
  if (any_action(lists, [](const Action& action) { return is_wait(action.kind); })) return "WAIT actions";
  if (any_action(lists, [](const Action& action) { return is_host_copy(action.kind); }))
    return "OFFLOAD and RELOAD";
  // If weights are updated once for each minibatch, all F of a pass use the same version, so the versions
  // need no check.
  const bool keeps_versions = program.update != UpdateRule::minibatch && !program.mixed_versions;
  if (keeps_versions && !std::ranges::all_of(lists, all_versions_rise))
    return "weight versions that fall from one microbatch to the next";
  return std::nullopt;
}

std::vector<std::vector<std::int32_t>> stages_by_rank(const Placement& placement, std::size_t ranks) {
  std::vector<std::vector<std::int32_t>> stages(ranks);
  for (std::size_t stage = 0; stage < placement.stages.size(); ++stage) {
    for (const std::int32_t rank : placement.stages[stage].ranks)
      stages[index(rank)].push_back(static_cast<std::int32_t>(stage));
  }
  return stages;
}

// The memory changes of a rank come in order of time under four conditions: messages have no bytes, all
// actions take time and do not overlap, no stage of the rank has replicas, and no two STEPs run at one
// instant.
std::vector<TellingOrder> telling_orders(const Experiment& experiment, std::span<const ActionLoops> lists) {
  const Program& program = experiment.program;
  const bool buffers = std::ranges::any_of(experiment.costs.edges, has_bytes);
  const bool overlaps = any_action(lists, [](const Action& action) { return action.overlaps_next; });
  std::vector<TellingOrder> orders;
  for (const std::vector<std::int32_t>& stages : stages_by_rank(program.placement, lists.size())) {
    const bool steps_apart = stages.size() == 1 || program.update == UpdateRule::minibatch;
    const bool alone_and_slow = std::ranges::all_of(stages, [&](std::int32_t stage) {
      const bool alone = program.placement.stages[index(stage)].ranks.size() == 1;
      return alone && takes_time(experiment.costs.stages[index(stage)]);
    });
    const bool in_order = !buffers && !overlaps && steps_apart && alone_and_slow;
    orders.push_back(in_order ? TellingOrder::in_order : TellingOrder::delayed);
  }
  return orders;
}

}  // namespace penstock
