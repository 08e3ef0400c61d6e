#pragma once
// The state of each rank and stage in a streamed walk (streamed_walk.cpp).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "report/result/rank_meter.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/turn_state.hpp"

namespace penstock {

/// The interval in which something that an action waits for was in progress.
struct Interval {
  Ns start_ns = 0;
  Ns end_ns = 0;
};

/// Returns how much of [from, to) the intervals cover together.
inline Ns covered(std::vector<Interval>& intervals, Ns from, Ns to) {
  if (intervals.size() > 1) std::ranges::sort(intervals, {}, &Interval::start_ns);
  Ns sum = 0;
  for (const Interval& interval : intervals) {
    // The intervals are sorted by start, so the covered time so far ends at `from` and no time counts twice.
    const Ns start = std::max(from, interval.start_ns);
    const Ns end = std::min(to, interval.end_ns);
    if (end <= start) continue;
    sum += end - start;
    from = end;
  }
  return sum;
}

struct RankState {
  Ns clock_ns = 0;
  Ns collectives_ns = 0;              ///< end of the rank's last collective
  std::int64_t position = 0;          ///< number of list entries placed so far, including SENDs and RECVs
  std::int64_t actions = 0;           ///< number of compute actions placed so far
  RankMeter meter;                    ///< figures of the rank, if the walk computes figures
  std::vector<std::int32_t> senders;  ///< ranks that may send to this rank
};

/// A stage on one of the ranks that hold it.
struct HeldStage {
  std::int32_t rank = 0;
  Interval reduction;  ///< the latest reduction of the stage's gradients
  std::int64_t reductions = 0;
  LoopCursor next;    ///< position of the next F that has not run, or an earlier position
  LoopCursor newest;  ///< first F of the newest version that was searched for, or an earlier F
};

/// A collective that some of its members have joined. The members join one after the other.
struct Gathering {
  std::vector<std::int32_t> members;
  Ns start_ns = 0;
};

class HeldStages {
 public:
  HeldStages(const Program& program, const LoopHeads& heads) {
    for (const StagePlacement& stage : program.placement.stages) {
      std::vector<HeldStage>& held = stages_.emplace_back();
      for (const std::int32_t rank : stage.ranks) {
        held.push_back({.rank = rank,
                        .reduction = {},
                        .reductions = 0,
                        .next = heads.cursor(rank),
                        .newest = heads.cursor(rank)});
      }
    }
  }

  /// Returns the stage's state on a rank. Requires that the rank holds the stage.
  HeldStage& at(std::int32_t stage, std::int32_t rank) {
    return *std::ranges::find(stages_[index(stage)], rank, &HeldStage::rank);
  }
  /// Calls `see(stage, held)` for every stage on every rank that holds it.
  template <class See>
  void for_each(const See& see) {
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      for (HeldStage& held : stages_[stage]) see(static_cast<std::int32_t>(stage), held);
    }
  }

 private:
  std::vector<std::vector<HeldStage>> stages_;  // index: stage, then replica
};

/// The F of a rank after the actions that run now, as RankLedger needs them. Requires that the weight
/// versions of a stage never decrease along the list.
struct LaterForwards {
  const Program& program;
  const LoopHeads& heads;
  HeldStages& stages;
  std::int32_t rank = 0;
  std::size_t running = 0;  ///< number of actions that run at present

  bool keep_old_versions() const {
    return program.update != UpdateRule::minibatch && !program.mixed_versions;
  }
  bool next_has(std::int32_t stage, std::int32_t version) const {
    return has(stages.at(stage, rank).next, stage, 0, version);
  }
  bool some_has(std::int32_t stage, std::int32_t version) const {
    return has(stages.at(stage, rank).newest, stage, version, version);
  }

 private:
  /// Moves `cursor` to the first F with at least version `least`, and returns whether it has `version`. The
  /// cursor stays there for the next call, so that a run reads the list only once for each cursor.
  bool has(LoopCursor& cursor, std::int32_t stage, std::int32_t least, std::int32_t version) const {
    LoopCursor behind = heads.cursor(rank);
    for (std::size_t i = 0; i < running; ++i) ++behind;
    if (cursor.is_before(behind)) cursor = behind;
    for (; !cursor.at_end(); ++cursor) {
      const Action action = *cursor;
      const bool is_forward = action.kind == ActionKind::forward && action.stage == stage;
      if (is_forward && action.weight_version >= least) return action.weight_version == version;
    }
    return false;
  }
};

}  // namespace penstock
