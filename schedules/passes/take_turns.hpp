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

/// The message of TurnsTaken: `rest` is by rank what it has not placed.
std::string stuck_message(const Program& program, std::span<const std::span<const Action>> rest,
                          const HandedOver& inputs);

/// One go through a compute program's lists. A sink has these members:
///
///   void compute(std::int32_t rank, std::span<const Action> group);
///       The next of the rank's list, an action or an overlapped group, is placed. RESHARDs count as such.
///   void message(const StageMessage& message, std::int32_t from_rank, std::int32_t to_rank);
///       What has just been placed on `from_rank` sends this to another rank, which has not asked for it yet.
///   void collective(std::int32_t rank, const Action& action);
///       The rank joins a collective, the next of its list. All members do so one after the other, but for
///       those that had to go on behind it before.
template <class Sink>
class TurnTaking {
 public:
  /// Both must outlive the turns.
  TurnTaking(const Program& program, Sink& sink)
      : program_(program),
        sink_(sink),
        rest_(program.ranks.begin(), program.ranks.end()),
        unfinished_(rest_.size()),
        inputs_(program),
        collectives_(program.placement),
        now_(rest_.size()),
        later_(rest_.size()),
        at_collective_(rest_.size()) {}

  /// O(actions), and O(log members) more for each member of a collective.
  TurnsTaken run() && {
    for (std::int32_t rank = 0; rank < program_.rank_count(); ++rank) arrive(rank);
    go_round();
    if (unfinished_ == 0) return {.finished = true};
    // Taken now, while it says where the one order ended; later it would speak of ranks that went on without
    // it.
    TurnsTaken taken{.stuck = stuck_message(program_, rest_, inputs_)};
    while (join_early()) go_round();
    taken.finished = unfinished_ == 0;
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
    }
  }

  /// The rank may be ready: it gets a turn in this round if its turn is still to come, or in the next.
  void wake(std::int32_t rank) { (rank >= still_to_come_ ? now_ : later_).add(rank); }
  void wake_members(std::int32_t stage) {
    for (const std::int32_t member : members_of(stage)) wake(member);
  }
  const std::vector<std::int32_t>& members_of(std::int32_t stage) const {
    return program_.placement.stages[index(stage)].ranks;
  }

  void take_turn(std::int32_t rank) {
    const std::span<const Action> list = rest_[index(rank)];
    if (list.empty()) return;
    if (is_collective(list.front().kind)) {
      meet(rank, list.front());
      return;
    }
    const std::span<const Action> group = list.first(group_end(list, 0));
    if (!std::ranges::all_of(group, [&](const Action& action) { return is_ready(rank, action); })) return;
    sink_.compute(rank, group);
    // Behind the whole group: a pair ends as one, so nothing leaves between its leaves.
    for (const Action& action : group) {
      inputs_.hand_on(action, [&](const StageMessage& message) { send(rank, message); });
    }
    go_on(rank, group.size());
  }

  bool is_ready(std::int32_t rank, const Action& action) {
    if (inputs_.missing_giver(action)) return false;
    if (!some_joined_early_) return true;
    const auto awaited = collective_before(action.kind);
    return !awaited || collectives_.all_joined({.kind = *awaited, .stage = action.stage}, rank);
  }

  void send(std::int32_t rank, const StageMessage& message) {
    const std::int32_t to_rank = program_.placement.rank_of(message.to, message.microbatch);
    if (to_rank == rank) return;
    sink_.message(message, rank, to_rank);
    wake(to_rank);
  }

  void go_on(std::int32_t rank, std::size_t actions) {
    rest_[index(rank)] = rest_[index(rank)].subspan(actions);
    arrive(rank);
  }

  /// The rank has come to what its list says next.
  void arrive(std::int32_t rank) {
    const std::span<const Action> list = rest_[index(rank)];
    if (list.empty()) {
      --unfinished_;
    } else if (!is_collective(list.front().kind)) {
      wake(rank);
    } else {
      at_collective_.add(rank);
      if (collectives_.reach(list.front(), rank)) wake_members(list.front().stage);
    }
  }

  /// All members that stand at the collective join it, once all have come to it.
  void meet(std::int32_t rank, const Action& collective) {
    const std::size_t number = collectives_.next_of(collective, rank);
    if (!collectives_.all_reached(collective, number)) return;
    for (const std::int32_t member : members_of(collective.stage)) {
      if (collectives_.next_of(collective, member) == number) join(member, collective);
    }
  }

  void join(std::int32_t rank, const Action& collective) {
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
    join(rank, rest_[index(rank)].front());
    return true;
  }

  const Program& program_;
  Sink& sink_;
  std::vector<std::span<const Action>> rest_;  // by rank: what it has not placed
  std::size_t unfinished_;                     // ranks that have not placed all
  HandedOver inputs_;
  CollectiveCounts collectives_;
  RankSet now_;  // those that may be ready, and whose turn in this round is still to come
  RankSet later_;
  std::int32_t still_to_come_ = 0;  // the first rank whose turn is
  RankSet at_collective_;
  bool some_joined_early_ = false;
};

/// Goes through the lists of a compute program and tells `sink` what is placed (TurnTaking). Requires
/// validate(program).
template <class Sink>
TurnsTaken take_turns(const Program& program, Sink& sink) {
  return TurnTaking<Sink>(program, sink).run();
}

}  // namespace penstock
