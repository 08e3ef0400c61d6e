#pragma once
// Ranks take turns through the lists of a compute program, so that every action finds what it needs. A sink
// is told what is placed: lower.cpp writes lists.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/action_ways.hpp"
#include "schedules/passes/turn_state.hpp"

namespace penstock {

/// How taking turns ended.
struct TurnsTaken {
  bool finished = false;  ///< all lists have been placed to their ends
  /// Where the one order of all ranks ended before the lists did, and what each rank waited for there; empty
  /// where it did not. If `finished` all the same, ranks have gone on behind collectives that others had not
  /// joined, and that nothing hangs is not said.
  std::string stuck{};
};

/// A line of TurnsTaken::stuck: where a rank stands, and what the group there waits for.
std::string stuck_line(std::int32_t rank, std::int64_t position, const Action& group_front,
                       const std::string& awaited);
/// The name of what an action waits for, made on stage `giver`.
std::string input_name(const Action& action, std::int32_t giver);

/// One go through a compute program's lists. `Lists` says what comes next (ListHeads, LoopHeads), `Inputs`
/// what has been handed over (HandedOver, or what says so in another way). A sink has these members:
///
///   void compute(std::int32_t rank, std::span<const Action> group);
///       The next of the rank's list, an action or an overlapped group, is placed. RESHARDs count as such.
///   void message(const StageMessage& message, std::int32_t from_rank, std::int32_t to_rank);
///       What has just been placed on `from_rank` sends this to another rank, which has not asked for it yet.
///   void collective(std::int32_t rank, const Action& action);
///       The rank joins a collective, the next of its list. All members do so one after the other, but for
///       those that had to go on behind it before.
///   void round(const RankSet& next);
///       A round has ended, and these may be ready in the next one. Only if the sink has such a member.
template <class Sink, class Lists, class Inputs>
class TurnTaking {
 public:
  /// All must outlive the turns; nothing is read of the program's lists.
  TurnTaking(const Program& program, Lists& lists, Inputs& inputs, Sink& sink)
      : program_(program),
        lists_(lists),
        inputs_(inputs),
        sink_(sink),
        unfinished_(program.ranks.size()),
        collectives_(program.placement),
        now_(program.ranks.size()),
        later_(program.ranks.size()),
        at_collective_(program.ranks.size()) {}

  /// O(actions), and O(log members) more for each member of a collective.
  TurnsTaken run() && {
    for (std::int32_t rank = 0; rank < program_.rank_count(); ++rank) arrive(rank);
    TurnsTaken taken;
    do {
      go_round();
      taken.finished = unfinished_ == 0;
      // Taken before ranks join early: where the one order ended; later it would speak of ranks that went on
      // without it.
      if (!taken.finished && !some_joined_early_) taken.stuck = stuck_message();
    } while (!taken.finished && join_early());
    return taken;
  }

 private:
  /// Round by round, until nobody can go on.
  void go_round() {
    while (!now_.empty()) {
      while (!now_.empty()) {
        const std::int32_t rank = now_.lowest();
        now_.remove(rank);
        still_to_come_ = rank + 1;
        take_turn(rank);
      }
      still_to_come_ = 0;
      std::swap(now_, later_);
      if constexpr (requires { sink_.round(now_); }) sink_.round(now_);
    }
  }

  /// The rank may be ready: it gets a turn in this round if its turn is still to come, or in the next.
  void wake(std::int32_t rank) {
    if (rank >= still_to_come_) {
      now_.add(rank);
    } else {
      later_.add(rank);
    }
  }
  void wake_members(std::int32_t stage) {
    for (const std::int32_t member : members_of(stage)) wake(member);
  }
  const std::vector<std::int32_t>& members_of(std::int32_t stage) const {
    return program_.placement.stages[index(stage)].ranks;
  }

  void take_turn(std::int32_t rank) {
    const std::span<const Action> group = lists_.group(rank);
    if (group.empty()) return;
    if (group.size() > 1) {
      take_turn_with_group(rank, group);
    } else if (is_collective(group.front().kind)) {
      meet(rank, group.front());
    } else {
      take_turn_with(rank, group.template first<1>());
    }
  }
  [[gnu::noinline]] void take_turn_with_group(std::int32_t rank, std::span<const Action> group) {
    take_turn_with(rank, group);
  }

  /// Nearly all groups are one action, and the compiler knows it.
  template <std::size_t kActions>
  void take_turn_with(std::int32_t rank, std::span<const Action, kActions> group) {
    for (const Action& action : group) {
      if (!is_ready(rank, action)) return;
    }
    sink_.compute(rank, group);
    // Behind the whole group: a pair ends as one, so nothing leaves between its leaves.
    for (const Action& action : group) {
      inputs_.hand_on(action, [&](const ActionWay& way) { send(rank, action, way); });
    }
    go_on(rank, group.size());
  }

  /// Its inputs are there. Collectives are asked for only when ranks have gone past some early: otherwise a
  /// rank is past one when all are.
  bool is_ready(std::int32_t rank, const Action& action) {
    if (inputs_.missing_giver(action)) return false;
    if (!some_joined_early_) return true;
    return std::ranges::all_of(collectives_before(action.kind, program_.sharding), [&](ActionKind awaited) {
      return collectives_.all_joined({.kind = awaited, .stage = action.stage}, rank);
    });
  }

  void send(std::int32_t rank, const Action& action, const ActionWay& way) {
    const std::int32_t to_rank = way.rank_of(program_.placement, action.microbatch);
    if (to_rank == rank) return;
    sink_.message({.flow = way.flow, .from = action.stage, .to = way.stage, .microbatch = action.microbatch},
                  rank, to_rank);
    wake(to_rank);
  }

  /// What was placed is behind the rank.
  void go_on(std::int32_t rank, std::size_t actions) {
    lists_.pass(rank, actions);
    arrive(rank);
  }

  /// The rank has come to what its list says next.
  void arrive(std::int32_t rank) {
    const Action* next = lists_.next(rank);
    if (next == nullptr) {
      --unfinished_;
    } else if (!is_collective(next->kind)) {
      wake(rank);
    } else {
      arrive_at_collective(rank, *next);
    }
  }
  [[gnu::noinline]] void arrive_at_collective(std::int32_t rank, const Action& collective) {
    at_collective_.add(rank);
    if (collectives_.reach(collective, rank)) wake_members(collective.stage);
  }

  /// All members that stand at the collective join it, once all have come to it.
  [[gnu::noinline]] void meet(std::int32_t rank, Action collective) {
    const std::size_t number = collectives_.next_of(collective, rank);
    if (!collectives_.all_reached(collective, number)) return;
    for (const std::int32_t member : members_of(collective.stage)) {
      if (collectives_.next_of(collective, member) == number) join(member, collective);
    }
  }

  void join(std::int32_t rank, Action collective) {
    at_collective_.remove(rank);
    sink_.collective(rank, collective);
    const bool last = collectives_.join(collective, rank);
    if (last && some_joined_early_) wake_members(collective.stage);
    go_on(rank, 1);
  }

  /// Lets the lowest rank that stands at a collective join it before the others are there.
  bool join_early() {
    if (at_collective_.empty()) return false;
    some_joined_early_ = true;
    const std::int32_t rank = at_collective_.lowest();
    join(rank, lists_.group(rank).front());
    return true;
  }

  std::string stuck_message() const {
    std::string message = "the order of the actions cannot be executed; ranks wait for each other:";
    for (std::int32_t rank = 0; rank < program_.rank_count(); ++rank) {
      const std::span<const Action> group = lists_.group(rank);
      if (!group.empty())
        message += stuck_line(rank, lists_.position(rank), group.front(), awaited_by(group));
    }
    return message;
  }
  /// The first thing that keeps the group, in words.
  std::string awaited_by(std::span<const Action> group) const {
    for (const Action& action : group) {
      if (is_collective(action.kind)) return "the other ranks that hold the stage";
      if (const auto giver = inputs_.missing_giver(action)) return input_name(action, *giver);
    }
    return "nothing";
  }

  const Program& program_;
  Lists& lists_;
  Inputs& inputs_;
  Sink& sink_;
  std::size_t unfinished_;  // ranks that have not placed all
  CollectiveCounts collectives_;
  RankSet now_;  // those that may be ready, and whose turn in this round is still to come
  RankSet later_;
  std::int32_t still_to_come_ = 0;  // the first rank whose turn is
  RankSet at_collective_;
  bool some_joined_early_ = false;
};

/// Goes through the plain lists of a compute program and tells `sink` what is placed (TurnTaking). Requires
/// validate(program).
template <class Sink>
TurnsTaken take_turns(const Program& program, Sink& sink) {
  ListHeads lists(program);
  HandedOver inputs(program);
  return TurnTaking(program, lists, inputs, sink).run();
}

}  // namespace penstock
