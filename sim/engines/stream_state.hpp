#pragma once
// What a streamed walk (streamed_walk.cpp) knows of each rank and stage while it goes.

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

/// From when to when something that an action waited for was under way.
struct Interval {
  Ns start_ns = 0;
  Ns end_ns = 0;
};

/// How much of [from, to) some of the intervals cover.
inline Ns covered(std::vector<Interval>& intervals, Ns from, Ns to) {
  if (intervals.size() > 1) std::ranges::sort(intervals, {}, &Interval::start_ns);
  Ns sum = 0;
  for (const Interval& interval : intervals) {
    // In order of their starts, what is covered so far ends at `from`, and no time counts twice.
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
  Ns collectives_ns = 0;              ///< its last collective has ended
  std::int64_t position = 0;          ///< of its list with all messages, how much is placed
  std::int64_t actions = 0;           ///< compute actions
  RankMeter meter;                    ///< its figures, where they are followed
  std::vector<std::int32_t> senders;  ///< ranks that may send to it
};

/// A stage on one of the ranks that hold it.
struct HeldStage {
  std::int32_t rank = 0;
  Interval reduction;  ///< the last one of its gradients
  std::int64_t reductions = 0;
  LoopCursor next;    ///< at the first F behind what has run, or before that
  LoopCursor newest;  ///< at the first one of the newest version that has been asked for, or before that
};

/// A collective whose members come one after the other.
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

  /// Requires that the rank holds the stage.
  HeldStage& at(std::int32_t stage, std::int32_t rank) {
    return *std::ranges::find(stages_[index(stage)], rank, &HeldStage::rank);
  }
  /// Shows all to see(stage, held).
  template <class See>
  void for_each(const See& see) {
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      for (HeldStage& held : stages_[stage]) see(static_cast<std::int32_t>(stage), held);
    }
  }

 private:
  std::vector<std::vector<HeldStage>> stages_;  // by stage and replica
};

/// The F of a rank behind the actions that run now, for RankLedger: versions do not fall from one of a stage
/// to the next.
struct LaterForwards {
  const Program& program;
  const LoopHeads& heads;
  HeldStages& stages;
  std::int32_t rank = 0;
  std::size_t running = 0;  ///< actions

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
  /// Takes `cursor` to the first F of at least that version. It stays there for the next question, so that
  /// over a run the list is read once by each cursor.
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
