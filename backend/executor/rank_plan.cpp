// Prepares everything that a worker would otherwise search for while the clock runs. A weight version is
// dropped after its last use, or after the STEP that replaced it if that comes later:
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

/// Returns for each position the versions that are dropped after it, for the rank whose list is [begin, end).
/// The newest version of each stage is never dropped. The rule is VersionLife (ir/needs.hpp), which the
/// checker and the prediction of memory use as well.
std::map<std::int32_t, std::vector<StageVersion>> dropped_versions(const FlatProgram& flat,
                                                                   std::int32_t begin, std::int32_t end) {
  std::map<std::int32_t, VersionLives> stages;
  for (std::int32_t p = begin; p < end; ++p) {
    // A barrier has an empty action, which would count as an F of stage 0.
    if (flat.ops[index(p)] == FlatOp::barrier) continue;
    stages[flat.actions[index(p)].stage].note(flat.actions[index(p)], p);
  }
  std::map<std::int32_t, std::vector<StageVersion>> dropped;
  for (const auto& [stage, versions] : stages) {
    // all() lists the lives in the order of the versions, from 0.
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
    // Microbatch numbers continue over iterations, so each message has its own key.
    if (flat.ops[index(p)] == FlatOp::send) {
      plan.messages[message_of(action)] = flat.message[index(p)];
    }
    if (action.kind == ActionKind::recompute) plan.recomputed.insert({action.stage, action.microbatch});
  }
  return plan;
}

}  // namespace penstock
