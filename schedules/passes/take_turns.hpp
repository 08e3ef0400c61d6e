#pragma once
// Placement rounds: the ranks place the actions of a compute program one after another, so that each
// action comes after its inputs. The class calls a sink for everything that it places. For example, the
// sink of lower.cpp writes the lists of the lowered program.

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

/// The result of the placement rounds.
struct TurnsTaken {
  /// True if all lists have been placed completely.
  bool finished = false;
  /// A message that says at which position the common order of all ranks ended and what each rank waited for.
  /// Empty if the common order reached the ends of the lists. If `finished` is true and the message is not
  /// empty, some ranks have passed collectives before the other members. Then the program may hang.
  std::string stuck{};
};

/// Returns one line of the message TurnsTaken::stuck. It states the position of a rank in its list, and the
/// input that its next action or overlapped group waits for.
std::string stuck_line(std::int32_t rank, std::int64_t position, const Action& group_front,
                       const std::string& awaited);
/// Returns a text that names the input which `action` receives from stage `giver`.
std::string input_name(const Action& action, std::int32_t giver);

/// Placement rounds over the lists of a compute program. `Lists` returns the next action of each rank
/// (ListHeads, LoopHeads). `Inputs` records which data has been sent (HandedOver, or a class with the same
/// members). A sink has these members:
///
///   void compute(std::int32_t rank, std::span<const Action> group);
///       Places the next action or overlapped group of the rank's list. A RESHARD is placed in this way, too.
///   void message(const StageMessage& message, std::int32_t from_rank, std::int32_t to_rank);
///       The group that was just placed on `from_rank` sends this message to a rank that does not have it
///       yet.
///   void collective(std::int32_t rank, const Action& action);
///       The rank joins a collective, the next action of its list. All members join one after the other,
///       except for those that had to join early.
///   void round(const RankSet& next);
///       A round has ended, and these ranks may be ready in the next one. Called only if the sink has the
///       member.
///   bool gives_up() const;
///       Returns true if no further round is wanted. Called only if the sink has the member.
template <class Sink, class Lists, class Inputs>
class TurnTaking {
 public:
  /// Stores references to its arguments, which must outlive the object. Reads the actions from `lists`, not
  /// from `program`.
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

  /// Runs all rounds. The time is proportional to the number of actions. Each member of a collective adds
  /// O(log members).
  TurnsTaken run() && {
    for (std::int32_t rank = 0; rank < program_.rank_count(); ++rank) arrive(rank);
    TurnsTaken taken;
    do {
      go_round();
      taken.finished = unfinished_ == 0;
      // The message is made before ranks join early, because it must show where the common order ended.
      if (!taken.finished && !some_joined_early_) taken.stuck = stuck_message();
    } while (!taken.finished && !sink_gives_up() && join_early());
    return taken;
  }

 private:
  bool sink_gives_up() const {
    if constexpr (requires { sink_.gives_up(); }) return sink_.gives_up();
    return false;
  }

  /// Runs rounds until no rank can continue.
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
      if (sink_gives_up()) return;
    }
  }

  /// Adds the rank to the current round, because it may be ready to place an action. If the current round has
  /// already passed this rank, adds it to the next round.
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

  /// Places the group of actions if the rank has all their inputs. Most groups consist of a single action,
  /// so one version of this function has a fixed size of 1.
  template <std::size_t kActions>
  void take_turn_with(std::int32_t rank, std::span<const Action, kActions> group) {
    for (const Action& action : group) {
      if (!is_ready(rank, action)) return;
    }
    sink_.compute(rank, group);
    // All actions of a group end together, so their messages leave after the whole group.
    for (const Action& action : group) {
      inputs_.hand_on(action, [&](const ActionWay& way) { send(rank, action, way); });
    }
    go_on(rank, group.size());
  }

  /// Returns true if the rank has all inputs of the action. Until a rank joins a collective early, all
  /// members pass each collective together, so collectives need no check.
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

  /// Moves the rank past the `actions` actions that it has just placed.
  void go_on(std::int32_t rank, std::size_t actions) {
    lists_.pass(rank, actions);
    arrive(rank);
  }

  /// Looks at the next action of the rank's list. If it is a collective, adds the rank to the ranks that wait
  /// at collectives. Otherwise adds it to a round.
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

  /// Lets the waiting members join the collective, if all members have reached it.
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

  /// Lets one rank join a collective before the other members have reached it. It is the lowest of the
  /// ranks that wait at a collective. Returns false if no rank waits at one.
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
  /// Returns a text that names the first missing input of the group, or "nothing".
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
  std::size_t unfinished_;  // the number of ranks with actions that are not placed yet
  CollectiveCounts collectives_;
  RankSet now_;                     // ranks that may be ready and still have their turn in this round
  RankSet later_;                   // ranks that may be ready in the next round
  std::int32_t still_to_come_ = 0;  // the first rank that has not had its turn in this round
  RankSet at_collective_;
  bool some_joined_early_ = false;
};

/// Runs placement rounds over the plain lists of a compute program and calls the members of `sink` (see
/// TurnTaking). Requires that validate(program) succeeds.
template <class Sink>
TurnsTaken take_turns(const Program& program, Sink& sink) {
  ListHeads lists(program);
  HandedOver inputs(program);
  return TurnTaking(program, lists, inputs, sink).run();
}

}  // namespace penstock
