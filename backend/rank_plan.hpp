#pragma once
// What one rank's worker looks up while it runs its list: derived from the flat program once, before the
// clock starts. Private to the executor.

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "schedules/action.hpp"
#include "schedules/flat_program.hpp"
#include "schedules/program.hpp"

namespace penstock {

/// What flows between two stages for one microbatch.
struct Flow {
  bool gradient = false;  ///< false: an activation
  std::int32_t from = 0;  ///< stages
  std::int32_t to = 0;
  std::int32_t microbatch = 0;

  friend auto operator<=>(const Flow&, const Flow&) = default;
};
/// What a SEND or RECV moves.
Flow flow_of(const Action& transfer);

/// A weight version of a stage.
struct StageVersion {
  std::int32_t stage = 0;
  std::int32_t version = 0;
};

struct RankPlan {
  std::map<Flow, std::int32_t> messages;  ///< what leaves the rank; other flows stay on it
  std::set<std::pair<std::int32_t, std::int32_t>> recomputed;  ///< stage and microbatch of each R
  /// By position: versions whose last use it is, and that a STEP has replaced by then.
  std::map<std::int32_t, std::vector<StageVersion>> dropped_after;
};
RankPlan plan_of(const FlatProgram& flat, std::int32_t rank);

}  // namespace penstock
