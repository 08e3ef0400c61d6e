// Combines a pipeline with data parallelism: every rank becomes several ranks, one for each copy. This is
// GPipe on two ranks with two copies and four microbatches (a = REDUCE_GRAD, s = STEP):
//
//   pipeline           rank 0  0F0 0F1 0B0 0B1 0s        rank 1  1F0 1F1 1B0 1B1 1s
//
//   copy 0             rank 0  0F0 0F2 0B0 0B2 0a 0s     rank 2  1F0 1F2 1B0 1B2 1a 1s
//   copy 1             rank 1  0F1 0F3 0B1 0B3 0a 0s     rank 3  1F1 1F3 1B1 1B3 1a 1s
//
// rules/pipeline_copies.cpp applies this pass to every schedule. Tested by pipeline_replicas_test.cpp.

#include "schedules/passes/pipeline_replicas.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {
namespace {

/// Returns the stages that have a REDUCE_GRAD in any list.
std::set<std::int32_t> reduced_stages(const Program& program) {
  std::set<std::int32_t> stages;
  for (const std::vector<Action>& actions : program.ranks) {
    for (const Action& action : actions) {
      if (action.kind == ActionKind::reduce_grad) stages.insert(action.stage);
    }
  }
  return stages;
}

/// Returns the positions in one rank's list before which a REDUCE_GRAD must be inserted. Stages that already
/// have a REDUCE_GRAD are left out.
std::multimap<std::size_t, std::int32_t> reductions(const std::vector<Action>& actions,
                                                    const std::set<std::int32_t>& reduced,
                                                    Reduction reduction) {
  std::multimap<std::size_t, std::int32_t> before;
  std::map<std::int32_t, std::size_t> last_backward;  // its position, since the stage's last STEP
  std::size_t steps = actions.size();                 // the position of the first of the consecutive STEPs
  for (std::size_t position = 0; position < actions.size(); ++position) {
    const Action& action = actions[position];
    if (makes_weight_gradient(action.kind)) last_backward[action.stage] = position;
    if (action.kind != ActionKind::step) continue;
    if (position == 0 || actions[position - 1].kind != ActionKind::step) steps = position;
    const auto last = last_backward.find(action.stage);
    if (last == last_backward.end() || reduced.contains(action.stage)) continue;
    // An overlapped reduction comes directly after the last backward of the stage. Other reductions come
    // before all consecutive STEPs, so that every reduction of the rank has started before the first STEP
    // waits.
    before.emplace(reduction == Reduction::overlapped ? group_end(actions, last->second) : steps,
                   action.stage);
    last_backward.erase(last);
  }
  return before;
}

/// Returns one rank's list with these REDUCE_GRADs. Several at one position are in the order of their STEPs.
std::vector<Action> with_reductions(const std::vector<Action>& actions,
                                    const std::multimap<std::size_t, std::int32_t>& before) {
  std::vector<Action> list;
  list.reserve(actions.size() + before.size());
  for (std::size_t position = 0; position < actions.size(); ++position) {
    const auto [first, last] = before.equal_range(position);
    for (auto entry = first; entry != last; ++entry) {
      list.push_back(whole_stage(ActionKind::reduce_grad, entry->second));
    }
    list.push_back(actions[position]);
  }
  return list;
}

/// Returns the number of unit `unit` of copy `copy` among the units of all copies. The slices of a microbatch
/// stay together.
std::int32_t shared_unit(std::int32_t unit, std::int32_t copy, std::int32_t copies, std::int32_t slices) {
  return (unit / slices * copies + copy) * slices + unit % slices;
}

StagePlacement replicated(const StagePlacement& stage, std::int32_t copies, std::int32_t slices) {
  StagePlacement all{.ranks = {}, .route = {}};
  for (const std::int32_t rank : stage.ranks) {
    // The copies of a rank are adjacent: rank r becomes the ranks from r x copies on.
    for (std::int32_t copy = 0; copy < copies; ++copy) all.ranks.push_back(rank * copies + copy);
  }
  // The route of all copies repeats after a number of units. It is a multiple of the number of slices and of
  // the length of the pipeline's own route.
  const auto own = static_cast<std::int32_t>(stage.route.size());
  const std::int32_t period = std::lcm(own, slices);
  all.route.resize(index(std::int64_t{period} * copies));
  for (std::int32_t unit = 0; unit < period; ++unit) {
    for (std::int32_t copy = 0; copy < copies; ++copy) {
      all.route[index(shared_unit(unit, copy, copies, slices))] =
          stage.route[index(unit % own)] * copies + copy;
    }
  }
  return all;
}

}  // namespace

Program replicate_pipeline(const Program& pipeline, const PipelineReplicas& replicas) {
  Program all = pipeline;
  all.microbatches *= replicas.count;
  for (StagePlacement& stage : all.placement.stages) {
    stage = replicated(stage, replicas.count, pipeline.slices);
  }
  const std::set<std::int32_t> reduced = reduced_stages(pipeline);
  all.ranks.clear();
  for (std::vector<Action> list : pipeline.ranks) {
    if (replicas.sync == ReplicaSync::on && replicas.count > 1) {
      list = with_reductions(list, reductions(list, reduced, replicas.reduction));
    }
    for (std::int32_t copy = 0; copy < replicas.count; ++copy) {
      std::vector<Action> mine = list;
      for (Action& action : mine) {
        if (!has_microbatch(action.kind)) continue;
        action.microbatch = shared_unit(action.microbatch, copy, replicas.count, pipeline.slices);
      }
      all.ranks.push_back(std::move(mine));
    }
  }
  return all;
}

}  // namespace penstock
