#pragma once
// The facts of a schedule that are known before its whole program is generated: the rank of each stage,
// whether backward passes are split, and what ranks hold when their memory is fullest.

#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// The microbatches and gradients that a rank holds when one of its actions starts.
struct HeldMoment {
  /// The microbatches between F and the end of their backward pass, for each stage of the rank.
  std::vector<std::int32_t> live;
  /// The live microbatches that have started I and have not ended W, for each stage of the rank.
  std::vector<std::int32_t> waiting;
  std::vector<bool> gradients;            ///< true if gradients are held, for each stage of the rank
  std::int32_t running = 0;               ///< the index of the running stage among the rank's stages
  ActionKind kind = ActionKind::forward;  ///< the kind of the action that starts
};

struct RankOutline {
  std::vector<std::int32_t> stages;  ///< the stages of the rank, ascending
  std::vector<HeldMoment> moments;   ///< the fullest moments of the rank by several measures
};

struct ScheduleOutline {
  std::vector<std::int32_t> rank_of_stage;
  bool splits_backward = false;
  std::vector<RankOutline> ranks{};
  std::int32_t units = 0;  ///< the microbatches or slices of the outlined program
};

/// Returns the outline of a program of compute actions. SEND and RECV in its lists are ignored. Requires one
/// rank for each stage.
ScheduleOutline outline_of(const Program& program);

/// Returns the outline of a program of `microbatches` from the outline of a program with fewer microbatches.
/// If a rank held all of the fewer microbatches, it holds all `microbatches` in the result.
ScheduleOutline outline_of_whole(ScheduleOutline outline, std::int64_t microbatches);

/// Returns a lower bound on the peak bytes of a rank: the bytes at its fullest outlined moment, without
/// messages.
Bytes least_peak_bytes(const CostTable& costs, const RankOutline& rank);

/// Returns a number of microbatches, at most `microbatches`, with which a schedule of that many ranks already
/// reaches its fullest moments.
std::int32_t outlined_microbatches(std::int32_t stages, std::int32_t microbatches);

}  // namespace penstock
