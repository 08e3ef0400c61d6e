// A gather needs all ranks of its stage at once (u = UNSHARD):
//
//   rank 0   0u 1u        rank 0   0u 1u
//   rank 1   1u 0u  hangs rank 1   0u 1u  does not

#include "schedules/passes/shared_gathers.hpp"

#include <algorithm>
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

namespace penstock {
namespace {

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
      // check_gathers() has seen that they are as many, so that one list does not end before the other.
      if (ours == here.end() || theirs == there.end()) continue;
      return tl::unexpected(
          fmt::format("sharding: 3 has rank {} gather stage {} where rank {} gathers stage {}, so that they "
                      "wait for each other; take fewer buckets or virtual stages, or sharding 2",
                      first, *ours, rank, *theirs));
    }
  }
  return {};
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

}  // namespace

tl::expected<Program, std::string> with_gathers_of_shared_stages(Program gathered) {
  for (std::vector<Action>& actions : gathered.ranks) {
    // PyTorch's pass gathers a stage on one rank all the same.
    std::erase_if(actions, [&](const Action& action) {
      return gathers_or_drops(action.kind) && !is_shared(gathered, action.stage);
    });
    sort_gathers(actions);
  }
  if (auto checked = check_gathers(gathered); !checked) return tl::unexpected(checked.error());
  if (auto checked = check_order(gathered); !checked) return tl::unexpected(checked.error());
  return gathered;
}

}  // namespace penstock
