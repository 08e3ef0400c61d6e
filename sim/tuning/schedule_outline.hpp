#pragma once
// What of a schedule is known before its program is made: where stages are, whether backwards are split, and
// what ranks hold at their fullest.

#include <cstdint>
#include <string_view>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

/// What a rank holds when one of its actions starts.
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
};

/// Of a program of compute actions. Requires one rank a stage.
ScheduleOutline outline_of(const Program& program);

/// Microbatches with which a schedule of so many ranks holds no more than it does with `microbatches`, at
/// most as many: enough for its fullest moments.
std::int32_t outlined_microbatches(std::int32_t stages, std::int32_t microbatches);

}  // namespace penstock
