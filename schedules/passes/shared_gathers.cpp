// A gather needs all ranks of its stage at the same time, so all ranks must gather shared stages in the same
// order (u = UNSHARD):
//
//   rank 0   0u 1u           rank 0   0u 1u
//   rank 1   1u 0u  hangs    rank 1   0u 1u  does not hang
//
// sharding.cpp runs this pass last. Tested by sharding_test.cpp.

#include "schedules/passes/shared_gathers.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

/// Returns the number of gathers of each stage on a rank.
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
      // A gather needs all ranks of the stage. If a rank had fewer gathers, the other ranks would wait
      // forever.
      if (of_rank[index(rank)][stage] == of_rank[index(first)][stage]) continue;
      return tl::unexpected(fmt::format(
          "sharding: 3 gathers stage {} {} times on rank {} but {} times on rank {}; take a number of "
          "microbatches that divides among the ranks of each stage",
          stage, of_rank[index(first)][stage], first, of_rank[index(rank)][stage], rank));
    }
  }
  return {};
}

/// Returns the gathers and reductions of the stages that `other` also holds, in the order of the rank's list.
std::vector<Action> exchanged_together(const Program& program, std::int32_t rank, std::int32_t other) {
  std::vector<Action> exchanges;
  for (const Action& action : program.ranks[index(rank)]) {
    if (!is_collective(action.kind)) continue;
    const std::vector<std::int32_t>& ranks = program.placement.stages[index(action.stage)].ranks;
    if (std::ranges::find(ranks, other) != ranks.end()) exchanges.push_back(action);
  }
  return exchanges;
}

std::string_view verb_of(const Action& exchange, bool of_one) {
  if (exchange.kind == ActionKind::unshard) return of_one ? "gathers" : "gather";
  return of_one ? "reduces" : "reduce";
}

/// Checks that all ranks exchange shared stages in the same order. With different orders they would wait for
/// each other forever.
tl::expected<void, std::string> check_order(const Program& program) {
  std::set<std::pair<std::int32_t, std::int32_t>> seen;
  for (const StagePlacement& stage : program.placement.stages) {
    for (const std::int32_t rank : stage.ranks) {
      const std::int32_t first = stage.ranks.front();
      // Each pair of ranks is checked once, even if it shares several stages.
      if (rank == first || !seen.emplace(first, rank).second) continue;
      const std::vector<Action> here = exchanged_together(program, first, rank);
      const std::vector<Action> there = exchanged_together(program, rank, first);
      const auto [ours, theirs] = std::ranges::mismatch(here, there);
      // Both lists have equal lengths. check_gathers() has counted the gathers, and the reductions were
      // counted when they were inserted.
      if (ours == here.end() || theirs == there.end()) continue;
      return tl::unexpected(fmt::format(
          "sharding: {} has rank {} {} stage {} where rank {} {} stage {}, so that they wait for "
          "each other; take fewer buckets or virtual stages, `parallel.gather: step` or a smaller "
          "sharding",
          program.sharding, first, verb_of(*ours, false), ours->stage, rank, verb_of(*theirs, true),
          theirs->stage));
    }
  }
  return {};
}

/// Sorts consecutive UNSHARDs by stage, so that ranks with several shared stages gather them in the same
/// order.
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

tl::expected<Program, std::string> with_exchanges_of_shared_stages(Program sharded) {
  for (std::vector<Action>& actions : sharded.ranks) {
    // PyTorch's pass also gathers stages that only one rank holds.
    std::erase_if(actions, [&](const Action& action) {
      return gathers_or_drops(action.kind) && !is_shared(sharded, action.stage);
    });
  }
  if (auto checked = check_gathers(sharded); !checked) return tl::unexpected(checked.error());
  // If all ranks use shared stages in the same order, this order remains.
  if (check_order(sharded)) return sharded;
  for (std::vector<Action>& actions : sharded.ranks) sort_gathers(actions);
  if (auto checked = check_order(sharded); !checked) return tl::unexpected(checked.error());
  return sharded;
}

}  // namespace penstock
