#pragma once
// Executes a flat program whose operations start in the order of their launches. It reports each event to
// a sink, as walk.hpp does for programs without this rule. A launch is resident when all earlier launches
// on the rank are resident and its own conditions hold. A message starts when the launches at both of its
// ends are resident:
//
//   rank 0   launches   RECV_B0   SEND_F1          RECV_B0 is resident from the start and waits for its peer
//            F1 ends              |----resident    SEND_F1 is resident when F1 has ended
//            launches                    RECV_B1   RECV_B1 only then, although it waits for nothing itself
//
// A rank launches ahead: it reaches a RECV although actions before it have not run. So launches are a second
// cursor beside the list's cursor. Tested by launch_order_test.cpp, and by engines_test.cpp of tests/sim/.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "schedules/check/flat_program.hpp"
#include "schedules/check/launch_lists.hpp"
#include "schedules/check/walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {

/// The state of LaunchWalk at the point where it has stalled, because no rank can continue.
struct LaunchState {
  LaunchLists lists;  ///< `missing` has the numbers of events that are still missing
  /// The position that each rank could not pass, or the end of its list.
  std::vector<std::int32_t> cursor;
  /// The number of resident launches of each rank. A launch is resident when it has started.
  std::vector<std::size_t> resident;
  /// The number of launches of each message that are not resident yet. A message for which this number is 0
  /// could start.
  std::vector<std::int32_t> pending;
};

/// One walk. The sink has the members that ListWalk (walk.hpp) requires, and two more. raise() gets only the
/// causes `resident`, and those of copies to and from hosts.
///
///   void hold(std::int32_t rank, std::int32_t position, const Cause& cause);
///       The launch at `position` is resident no earlier than `cause`.
///   void reside(std::int32_t rank, std::int32_t position);
///       The launch at `position` is resident: it comes after the latest resident launch of the rank and
///       after all of its causes.
template <class Sink>
class LaunchWalk {
 public:
  /// Prepares a walk through all lists. The program and the sink, which receives the calls of the walk, must
  /// outlive it.
  LaunchWalk(const FlatProgram& flat, Sink& sink)
      : flat_(flat),
        sink_(sink),
        state_{.lists = launch_lists(flat),
               .cursor = {flat.rank_begin.begin(), flat.rank_begin.end() - 1},
               .resident = std::vector<std::size_t>(index(flat.rank_count)),
               .pending = {}},
        stands_at_(index(flat.rank_count), kNone) {
    state_.pending.reserve(flat.messages.size());
    for (const FlatMessage& message : flat.messages) state_.pending.push_back(launches_of(flat, message));
  }

  /// Walks to the end and returns nothing. If no rank can move, it returns the stalled state.
  std::optional<LaunchState> run() && {
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) reside(rank);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) moved |= advance(rank);
    }
    for (std::size_t rank = 0; rank < state_.cursor.size(); ++rank) {
      if (state_.cursor[rank] != flat_.rank_begin[rank + 1]) return std::move(state_);
    }
    return std::nullopt;
  }

 private:
  /// A message that can start, but for which start() of the sink has not been called yet.
  struct Ready {
    std::int32_t message = kNone;
    Cause last{};
  };

  /// Advances the rank until it must wait. Returns true if it has moved or has reached a barrier.
  bool advance(std::int32_t rank) {
    std::int32_t& at = state_.cursor[index(rank)];
    const std::int32_t begin = at;
    const std::int32_t stood_at = stands_at_[index(rank)];
    const std::int32_t end = flat_.rank_begin[index(rank) + 1];
    while (at < end && pass(rank, at)) ++at;
    return at != begin || stands_at_[index(rank)] != stood_at;
  }

  /// Lets the rank pass one position of its list, or a whole group of compute actions. Returns false if the
  /// rank must wait.
  bool pass(std::int32_t rank, std::int32_t& position) {
    switch (flat_.ops[index(position)]) {
      case FlatOp::compute:
        return compute(rank, position);
      case FlatOp::leaf:
      case FlatOp::reshard:
        sink_.pass(rank, position);
        return true;
      case FlatOp::send: {
        launch(rank, position);
        const bool is_made = flat_.messages[index(flat_.message[index(position)])].producer == kNone;
        if (is_made) satisfy(rank, position, {.rank = rank});
        return true;
      }
      case FlatOp::recv:
        if (flat_.messages[index(flat_.message[index(position)])].eager) {
          if (flat_.has_launches) sink_.launch(rank, position);
        } else {
          launch(rank, position);
        }
        return true;
      case FlatOp::collective:
        if (is_host_copy(flat_.actions[index(position)].kind)) {
          reach_copy(rank, position);
          return true;
        }
        launch(rank, position);
        satisfy(rank, position, {.kind = CauseKind::clock, .rank = rank});
        return true;
      case FlatOp::wait:
        return pass_wait(rank, position);
      case FlatOp::barrier:
        return pass_barrier(rank, position);
    }
    return false;
  }

  /// Records that the rank has reached an OFFLOAD or RELOAD. These copies have queues of their own, so the
  /// order of launches does not include them.
  void reach_copy(std::int32_t rank, std::int32_t position) {
    if (flat_.has_launches) sink_.launch(rank, position);
    raise(flat_.message[index(position)],
          {.kind = CauseKind::clock, .rank = rank, .launched = flat_.has_launches});
  }

  bool compute(std::int32_t rank, std::int32_t& position) {
    inputs_.clear();
    for (std::int32_t w = flat_.next_wait[index(position)]; w != kNone; w = flat_.next_wait[index(w)]) {
      const std::int32_t message = flat_.message[index(w)];
      if (state_.pending[index(message)] > 0) return false;
      inputs_.push_back(message);
    }
    if (flat_.has_launches) sink_.launch(rank, position);
    sink_.compute(rank, position, inputs_);
    const std::int32_t head = position;
    for (const std::int32_t end = flat_.group_end(head); position + 1 < end;) sink_.pass(rank, ++position);
    for (std::int32_t id = state_.lists.first_sent[index(head)]; id != kNone;
         id = state_.lists.next_sent[index(id)]) {
      satisfy(rank, flat_.messages[index(id)].first,
              {.kind = CauseKind::producer, .rank = rank, .which = head});
    }
    if (flat_.released_by_consumer.empty()) return true;
    for (std::int32_t id = flat_.released_by_consumer[index(head)]; id != kNone;
         id = flat_.messages[index(id)].next_of_capacity) {
      satisfy(rank, flat_.messages[index(id)].recv, {.kind = CauseKind::clock, .rank = rank});
    }
    return true;
  }

  /// Lets the rank pass a WAIT, at which it waits for the ends of SENDs or of a REDUCE_GRAD. Returns false if
  /// one of them cannot start yet.
  bool pass_wait(std::int32_t rank, std::int32_t position) {
    const std::int32_t first = flat_.next_wait[index(position)];
    for (std::int32_t w = first; w != kNone; w = flat_.next_wait[index(w)]) {
      if (state_.pending[index(flat_.message[index(w)])] > 0) return false;
    }
    for (std::int32_t w = first; w != kNone; w = flat_.next_wait[index(w)])
      sink_.wait(rank, flat_.message[index(w)]);
    sink_.pass(rank, position);
    return true;
  }

  bool pass_barrier(std::int32_t rank, std::int32_t position) {
    const std::int32_t message = flat_.message[index(position)];
    // A waiting rank reaches this position several times, but its arrival at the barrier must count only
    // once.
    if (std::exchange(stands_at_[index(rank)], message) != message)
      satisfy(rank, position, {.kind = CauseKind::clock, .rank = rank});
    if (state_.pending[index(message)] > 0) return false;
    sink_.wait(rank, message);
    return true;
  }

  /// Reports that the rank's host launches the SEND, RECV or collective at `position`. Does nothing if
  /// launches take no time and have no limit.
  void launch(std::int32_t rank, std::int32_t position) {
    if (!flat_.has_launches) return;
    sink_.launch(rank, position);
    satisfy(rank, position, {.rank = rank, .launched = true});
  }

  /// Records that one event has happened for which the launch at `position` waits. If it was the last one,
  /// starts this launch and the next launches of the rank that can start.
  void satisfy(std::int32_t rank, std::int32_t position, const Cause& cause) {
    sink_.hold(rank, position, cause);
    if (--state_.lists.missing[index(position)] == 0) reside(rank);
  }

  /// Marks the next launches of the rank as resident, up to the first launch that still waits for an event.
  void reside(std::int32_t rank) {
    const std::vector<std::int32_t>& launches = state_.lists.of_rank[index(rank)];
    std::size_t& next = state_.resident[index(rank)];
    while (next < launches.size() && state_.lists.missing[index(launches[next])] == 0) {
      const std::int32_t position = launches[next++];
      sink_.reside(rank, position);
      const std::int32_t id = flat_.message[index(position)];
      const FlatMessage& message = flat_.messages[index(id)];
      if (message.eager && position == message.recv) continue;
      raise(id, {.kind = CauseKind::resident, .rank = rank});
    }
  }

  void raise(std::int32_t id, const Cause& cause) {
    const bool last = --state_.pending[index(id)] == 0;
    sink_.raise(id, cause, last);
    if (last) make_ready(id, cause);
  }

  void make_ready(std::int32_t message, const Cause& cause) {
    ready_.push_back({message, cause});
    if (ready_.size() > 1) return;  // the outer call processes the list, so that long chains do not recurse
    for (std::size_t i = 0; i < ready_.size(); ++i) start(ready_[i].message, Cause(ready_[i].last));
    ready_.clear();
  }

  void start(std::int32_t id, const Cause& last) {
    sink_.start(id, last);
    const FlatMessage& message = flat_.messages[index(id)];
    if (message.recv == kNone) {
      follow_collective(id);
      return;
    }
    // The receiver's queue comes first, for the reason that walk.hpp gives in the same place.
    follow(id, message.next_at_receiver, message.to_rank);
    follow(id, message.next_at_sender, message.from_rank);
  }

  void follow(std::int32_t id, std::int32_t next, std::int32_t rank) {
    if (next == kNone) return;
    satisfy(rank, transfer_end_on(flat_.messages[index(next)], rank),
            {.kind = CauseKind::release, .rank = rank, .which = id});
  }

  void follow_collective(std::int32_t id) {
    const FlatMessage& ended = flat_.messages[index(id)];
    if (flat_.is_host_copy(ended)) {
      const Cause cause{.kind = CauseKind::collective, .rank = flat_.rank_of(ended.first), .which = id};
      const std::int32_t next = flat_.next_collective[index(ended.first)];
      if (next != kNone) raise(flat_.message[index(next)], cause);
      if (ended.next_at_receiver != kNone) raise(ended.next_at_receiver, cause);
      return;
    }
    for (std::int32_t m = ended.first; m != kNone; m = flat_.next_member[index(m)]) {
      const std::int32_t next = flat_.next_collective[index(m)];
      if (next == kNone) continue;
      const std::int32_t rank = flat_.rank_of(m);
      satisfy(rank, next, {.kind = CauseKind::collective, .rank = rank, .which = id});
    }
  }

  const FlatProgram& flat_;
  Sink& sink_;
  LaunchState state_;
  std::vector<std::int32_t> stands_at_;  // last barrier that each rank has reached
  std::vector<Ready> ready_;             // the messages that can start, in the order of their last causes
  std::vector<std::int32_t> inputs_;     // the messages that the current compute action waits for
};

}  // namespace penstock
