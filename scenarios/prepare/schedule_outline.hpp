#pragma once
// What of a schedule is known before its whole program is made: where stages are, whether backwards are
// split, and what ranks hold at their fullest.

#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// The microbatches and gradients that a rank holds when one of its actions starts.
struct HeldMoment {
  std::vector<std::int32_t> live;  ///< microbatches between F and their last backward, by stage of the rank
  std::vector<std::int32_t> waiting;      ///< those of them whose I has begun, and that wait for W
  std::vector<bool> gradients;            ///< held, by stage of the rank
  std::int32_t running = 0;               ///< index among the rank's stages
  ActionKind kind = ActionKind::forward;  ///< of the action that starts
};

struct RankOutline {
  std::vector<std::int32_t> stages;  ///< ascending
  std::vector<HeldMoment> moments;   ///< some of the fullest
};

struct ScheduleOutline {
  std::vector<std::int32_t> rank_of_stage;
  bool splits_backward = false;
  std::vector<RankOutline> ranks{};
  std::int32_t units = 0;  ///< microbatches, or their slices, of the program that was outlined
};

/// Outlines a program of compute actions; SEND and RECV in its lists are passed over. Requires one rank a
/// stage.
ScheduleOutline outline_of(const Program& program);

/// Returns the outline of a program of `microbatches` that goes on as the outlined one, which may have fewer:
/// where a rank held all of those, it holds all of these.
ScheduleOutline outline_of_whole(ScheduleOutline outline, std::int64_t microbatches);

/// Returns bytes that a rank holds at some moment, messages left out: never more than its peak.
Bytes least_peak_bytes(const CostTable& costs, const RankOutline& rank);

/// Microbatches with which a schedule of so many ranks holds no more than it does with `microbatches`, at
/// most as many: enough for its fullest moments.
std::int32_t outlined_microbatches(std::int32_t stages, std::int32_t microbatches);

}  // namespace penstock
