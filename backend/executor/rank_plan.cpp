// Prepares the tables that a worker would otherwise have to search while the clock runs. The worker drops a
// weight version after its last use or after the STEP that replaces it, whichever comes later:
//
//     0F0   0F1   0B0   STEP   0F2   0B1   STEP   0B2        B takes the version of its F
//     v0    v0    v0           v1    v0           v1
//                                    ^ v0 goes    ^ v1 goes, after the STEP to v2

#include "backend/executor/rank_plan.hpp"

#include <cstdint>
#include <map>
#include <vector>

#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"

namespace penstock {
namespace {

/// Returns the weight versions to drop after each position of the list [begin, end) of one rank. The newest
/// version of each stage is never dropped. VersionLife (ir/needs.hpp) has the rule. The checker and the
/// prediction of memory use the same rule.
std::map<std::int32_t, std::vector<StageVersion>> dropped_versions(const FlatProgram& flat,
                                                                   std::int32_t begin, std::int32_t end) {
  std::map<std::int32_t, VersionLives> stages;
  for (std::int32_t p = begin; p < end; ++p) {
    // A barrier has a default Action, which would otherwise be read as an F of stage 0.
    if (flat.ops[index(p)] == FlatOp::barrier) continue;
    stages[flat.actions[index(p)].stage].note(flat.actions[index(p)], p);
  }
  std::map<std::int32_t, std::vector<StageVersion>> dropped;
  for (const auto& [stage, versions] : stages) {
    // all() returns the versions in ascending order, starting at 0.
    for (std::int32_t version = 0; const VersionLife& life : versions.all()) {
      if (life.dropped_by() != kNoPosition) dropped[life.dropped_by()].push_back({stage, version});
      ++version;
    }
  }
  return dropped;
}

}  // namespace

RankPlan plan_of(const FlatProgram& flat, std::int32_t rank) {
  const std::int32_t begin = flat.rank_begin[index(rank)];
  const std::int32_t end = flat.rank_begin[index(rank) + 1];
  RankPlan plan{.messages = {}, .recomputed = {}, .dropped_after = dropped_versions(flat, begin, end)};
  for (std::int32_t p = begin; p < end; ++p) {
    const Action& action = flat.actions[index(p)];
    // Microbatch numbers count on from one iteration to the next, so each message has its own key.
    if (flat.ops[index(p)] == FlatOp::send) {
      plan.messages[message_of(action)] = flat.message[index(p)];
    }
    if (action.kind == ActionKind::recompute) plan.recomputed.insert({action.stage, action.microbatch});
  }
  return plan;
}

}  // namespace penstock
