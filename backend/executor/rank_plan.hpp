#pragma once
// Tables that a RankWorker uses while it runs its rank's list. plan_of() builds them from the flat program
// before the clock starts.

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "schedules/check/flat_program.hpp"
#include "schedules/ir/needs.hpp"

namespace penstock {

/// A weight version of a stage.
struct StageVersion {
  std::int32_t stage = 0;
  std::int32_t version = 0;
};

struct RankPlan {
  /// The number of each message that this rank sends to another rank. An output without an entry is for a
  /// stage on this rank.
  std::map<StageMessage, std::int32_t> messages;
  std::set<std::pair<std::int32_t, std::int32_t>> recomputed;  ///< (stage, microbatch) of each R action
  /// The weight versions that the worker drops after the action at a position. No later action uses them, and
  /// a STEP has replaced them.
  std::map<std::int32_t, std::vector<StageVersion>> dropped_after;
};
RankPlan plan_of(const FlatProgram& flat, std::int32_t rank);

}  // namespace penstock
