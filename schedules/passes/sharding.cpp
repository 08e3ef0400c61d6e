// Two ranks, which share stage 0 and stage 1 (a = REDUCE_GRAD, s = STEP, u = UNSHARD, r = RESHARD); the same
// actions on both:
//
//   sharded 1, 2   0F 1F 1B 1a 0B 0a 1s 0s 0u 1u
//   sharded 3      0u 1u 0F 1F 1B 1a 1r 0B 0a 0r 1s 0s

#include "schedules/passes/sharding.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/fsdp.hpp"

namespace penstock {
namespace {

tl::expected<void, std::string> check_updates(const Program& program) {
  if (program.update == UpdateRule::minibatch) return {};
  // With several versions alive a gather would have to say which one.
  return tl::unexpected(fmt::format(
      "sharding: {} updates its weights more than once a minibatch or keeps several versions of them, which "
      "parts of weights cannot; take a schedule with one update a minibatch, such as 1f1b",
      program.schedule));
}

tl::expected<void, std::string> check_reduction(const Program& program) {
  for (const std::vector<Action>& actions : program.ranks) {
    for (const Action& step : actions) {
      if (step.kind != ActionKind::step || !is_shared(program, step.stage)) continue;
      const Action reduction{.kind = ActionKind::reduce_grad, .stage = step.stage};
      if (std::ranges::find(actions, reduction) == actions.end()) {
        return tl::unexpected(fmt::format(
            "sharding: the ranks of stage {} do not reduce their gradients; leave `replica_sync: off` out",
            step.stage));
      }
    }
  }
  return {};
}

/// How often a rank gathers each stage.
std::map<std::int32_t, std::int64_t> gathers(const std::vector<Action>& actions) {
  std::map<std::int32_t, std::int64_t> counts;
  for (const Action& action : actions) {
    if (action.kind == ActionKind::unshard) ++counts[action.stage];
  }
  return counts;
}

tl::expected<void, std::string> check_gathers(const Program& program) {
  std::vector<std::map<std::int32_t, std::int64_t>> of_rank;
  of_rank.reserve(program.ranks.size());
  for (const std::vector<Action>& actions : program.ranks) of_rank.push_back(gathers(actions));
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    const std::vector<std::int32_t>& ranks = program.placement.stages[index(stage)].ranks;
    const std::int32_t first = ranks.front();
    for (const std::int32_t rank : ranks) {
      // A gather needs all ranks of the stage: one that comes less often would leave the others waiting.
      if (of_rank[index(rank)][stage] == of_rank[index(first)][stage]) continue;
      return tl::unexpected(fmt::format(
          "sharding: 3 gathers stage {} {} times on rank {} but {} times on rank {}; take a number of "
          "microbatches that divides among the ranks of each stage",
          stage, of_rank[index(first)][stage], first, of_rank[index(rank)][stage], rank));
    }
  }
  return {};
}

/// The stages that a rank gathers, in its order, of those that `other` holds, too.
std::vector<std::int32_t> gathered_together(const Program& program, std::int32_t rank, std::int32_t other) {
  std::vector<std::int32_t> stages;
  for (const Action& action : program.ranks[index(rank)]) {
    if (action.kind != ActionKind::unshard) continue;
    const std::vector<std::int32_t>& ranks = program.placement.stages[index(action.stage)].ranks;
    if (std::ranges::find(ranks, other) != ranks.end()) stages.push_back(action.stage);
  }
  return stages;
}

/// Ranks that gather stages together in different orders would wait for each other.
tl::expected<void, std::string> check_order(const Program& program) {
  std::set<std::pair<std::int32_t, std::int32_t>> seen;
  for (const StagePlacement& stage : program.placement.stages) {
    for (const std::int32_t rank : stage.ranks) {
      const std::int32_t first = stage.ranks.front();
      // Each pair of ranks once, however many stages they share.
      if (rank == first || !seen.emplace(first, rank).second) continue;
      const std::vector<std::int32_t> here = gathered_together(program, first, rank);
      const std::vector<std::int32_t> there = gathered_together(program, rank, first);
      const auto [ours, theirs] = std::ranges::mismatch(here, there);
      if (ours == here.end() || theirs == there.end()) continue;
      return tl::unexpected(
          fmt::format("sharding: 3 has rank {} gather stage {} where rank {} gathers stage {}, so that they "
                      "wait for each other; take fewer buckets or virtual stages, or sharding 2",
                      first, *ours, rank, *theirs));
    }
  }
  return {};
}

void gather_behind_steps(const Program& program, std::vector<Action>& actions) {
  std::vector<Action> gathers;
  std::size_t behind = 0;
  for (std::size_t position = 0; position < actions.size(); ++position) {
    if (actions[position].kind != ActionKind::step) continue;
    behind = position + 1;
    // The STEP has updated each rank's part alone, so that all of them gather before the next F.
    if (is_shared(program, actions[position].stage))
      gathers.push_back({.kind = ActionKind::unshard, .stage = actions[position].stage});
  }
  // By stage on every rank: collectives of several groups that are met in different orders would hang.
  std::ranges::sort(gathers, {}, &Action::stage);
  actions.insert(actions.begin() + static_cast<std::ptrdiff_t>(behind), gathers.begin(), gathers.end());
}

/// Neighbouring UNSHARDs by ascending stage: ranks that share several stages gather them in one order.
void sort_gathers(std::vector<Action>& actions) {
  const auto is_gather = [](const Action& action) { return action.kind == ActionKind::unshard; };
  for (auto begin = actions.begin(); begin != actions.end();) {
    begin = std::find_if(begin, actions.end(), is_gather);
    const auto end = std::find_if_not(begin, actions.end(), is_gather);
    std::ranges::sort(begin, end, {}, &Action::stage);
    begin = end;
  }
}

Program with_weights_sharded(const Program& program) {
  Program result = insert_unshard_reshard(program);
  for (std::vector<Action>& actions : result.ranks) {
    // A stage on one rank is whole there; PyTorch's pass gathers it all the same.
    std::erase_if(actions, [&](const Action& action) {
      const bool gathers = action.kind == ActionKind::unshard || action.kind == ActionKind::reshard;
      return gathers && !is_shared(program, action.stage);
    });
    sort_gathers(actions);
  }
  return result;
}

}  // namespace

tl::expected<Program, std::string> shard_stages(const Program& program, std::int32_t sharding) {
  if (sharding == 0) return program;
  if (auto checked = check_updates(program); !checked) return tl::unexpected(checked.error());
  if (auto checked = check_reduction(program); !checked) return tl::unexpected(checked.error());
  Program result = program;
  if (sharding == 3) {
    result = with_weights_sharded(program);
    if (auto checked = check_gathers(result); !checked) return tl::unexpected(checked.error());
    if (auto checked = check_order(result); !checked) return tl::unexpected(checked.error());
  } else {
    for (std::vector<Action>& actions : result.ranks) gather_behind_steps(program, actions);
  }
  result.sharding = sharding;
  return result;
}

}  // namespace penstock
