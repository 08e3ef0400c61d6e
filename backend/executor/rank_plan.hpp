#pragma once
// What one rank's worker looks up while it runs its list: derived from the flat program once, before the
// clock starts. Private to the executor.

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
  std::map<StageMessage, std::int32_t> messages;               ///< what leaves the rank; the rest stays on it
  std::set<std::pair<std::int32_t, std::int32_t>> recomputed;  ///< stage and microbatch of each R
  /// By position: versions whose last use it is, and that a STEP has replaced by then.
  std::map<std::int32_t, std::vector<StageVersion>> dropped_after;
};
RankPlan plan_of(const FlatProgram& flat, std::int32_t rank);

}  // namespace penstock
