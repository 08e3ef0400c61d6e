#pragma once
// Tables that one rank's worker uses while it runs its list. They are derived from the flat program before
// the clock starts. Used only by the executor.

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
  /// Messages that leave the rank; all other outputs stay on it.
  std::map<StageMessage, std::int32_t> messages;
  std::set<std::pair<std::int32_t, std::int32_t>> recomputed;  ///< stage and microbatch of each R
  /// The versions to be dropped after the action at a position. It was their last use, and a STEP has
  /// replaced them.
  std::map<std::int32_t, std::vector<StageVersion>> dropped_after;
};
RankPlan plan_of(const FlatProgram& flat, std::int32_t rank);

}  // namespace penstock
