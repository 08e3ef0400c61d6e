#pragma once
// Executes a flat program in the order of its lists, and reports each event to a sink. Only this file
// defines the order of actions, queues and waiting. The sink makes times (rendezvous_walk.cpp) or
// instructions (sim/engines/compile.cpp) from the events. If the walk stalls, channel_check.cpp finds the
// hang in its state.
//
//   rank 0:  0F0 0SEND_F0 | 0F1 ...      each turn of a rank runs one compute action; a rank that needs a
//   rank 1:  1RECV_F0 | 1F0 ...          message that has not started waits, and then goes to the end of
//                                        the ring
//
// A rank runs only one compute action in each turn, so a RECV is usually reached before its SEND. Then a
// message starts when its producer ends. Also, actions of different ranks that run at the same time are
// stored next to each other. An engine that follows this order uses the processor's cache well.
//
// The walk needs no event queue, because durations do not change what an action waits for. For the same
// reason a program hangs either for all durations or for none.
//
// launch_walk.hpp is the walk of programs whose operations start in the order of their launches.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "schedules/check/flat_program.hpp"
#include "schedules/check/launch_lists.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {

/// The kind of event that had to happen before a message, collective or barrier could start.
enum class CauseKind : std::uint8_t {
  listed,      // a rank has reached its RECV, or a SEND without a producer; this takes no time
  clock,       // `rank` has reached it, or has reached the consumer that frees its capacity
  producer,    // the compute action at position `which` of `rank` has produced it
  release,     // message `which`, which was before it in a queue of `rank`, has left that queue
  collective,  // collective or copy `which`, for whose end the next one of `rank` waits, has ended
  resident,    // the newest resident launch of `rank` (launch_walk.hpp) is one end of the message
};

/// One event that had to happen before a message, collective or barrier could start. It names the rank of the
/// event, and the action or message that had to end.
struct Cause {
  CauseKind kind = CauseKind::listed;
  std::int32_t rank = kNone;
  std::int32_t which = kNone;
  bool launched = false;  // true if the launch by the host of `rank` is a condition, too
};

/// The state of ListWalk at the point where it has stalled, because no rank can continue. channel_check.cpp
/// finds the cycle of waits in it.
struct WalkState {
  /// The position that each rank could not pass, or the end of its list.
  std::vector<std::int32_t> cursor;
  /// The number of events that each message still waits for. A message for which this number is 0 could
  /// start.
  std::vector<std::int32_t> pending;
};

/// One walk. The sink must have the members below. The walk reports everything that a call depends on before
/// this call:
///
///   void compute(std::int32_t rank, std::int32_t position, std::span<const std::int32_t> messages);
///       The group of compute actions at `position` runs, after the previous actions of the rank and after
///       `messages`.
///   void pass(std::int32_t rank, std::int32_t position);
///       The rank passes a position that takes no time: a later action of a group, a RESHARD, or a WAIT
///       for which it has waited.
///   void raise(std::int32_t message, const Cause& cause, bool last);
///       The message starts no earlier than `cause`. After the last cause of a message, start() is called.
///   void start(std::int32_t message, const Cause& last);
///       The message waits for nothing more. Calls come in the order of the last causes, before any call that
///       depends on the message and before any further compute().
///   void wait(std::int32_t rank, std::int32_t message);
///       The rank continues in its list when the message has ended. Called for each message of a group of
///       transfers, for each SEND and REDUCE_GRAD of a WAIT, and for a barrier.
///   void launch(std::int32_t rank, std::int32_t position);
///       The rank's host launches a group of compute actions, a SEND, a RECV, a group of transfers or a
///       collective, in list order. Only called if the program has launches, directly before the position's
///       compute() or raise(). A group of transfers is launched at its first position.
template <class Sink>
class ListWalk {
 public:
  /// Prepares a walk through all lists. The program and the sink, which receives the calls of the walk, must
  /// outlive it.
  ListWalk(const FlatProgram& flat, const ChannelOptions& channels, Sink& sink)
      : flat_(flat),
        has_groups_(!flat.transfer_group.empty()),
        senders_wait_(has_groups_ || flat.has_waits),
        has_followers_(has_followers(flat, channels)),
        model_(channels.model),
        some_eager_(channels.eager_bytes > 0),
        is_large_(flat.position_count() > 500'000),
        sink_(sink) {
    state_.cursor.assign(flat.rank_begin.begin(), flat.rank_begin.end() - 1);
    state_.pending.reserve(flat.messages.size());
    for (const FlatMessage& message : flat.messages) state_.pending.push_back(message.pending);
    stands_at_.assign(state_.cursor.size(), kNone);
    awake_.resize(state_.cursor.size());
  }

  /// Walks to the end and returns nothing. If no rank can move, it returns the stalled state. Takes time in
  /// proportion to the positions.
  std::optional<WalkState> run() && {
    // Each rank first runs up to its first compute action, so that it reaches its first RECVs before other
    // ranks reach the SENDs.
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) take_turn(rank, true);
    while (awake_count_ > 0) {
      const std::int32_t rank = awake_[first_awake_];
      first_awake_ = first_awake_ + 1 == awake_.size() ? 0 : first_awake_ + 1;
      --awake_count_;
      take_turn(rank, false);
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

  bool started(std::int32_t message) const { return state_.pending[index(message)] == 0; }

  /// Moves the rank through its list until it must wait or reaches its second group of compute actions. If
  /// `computed` is true, it stops at the first group.
  void take_turn(std::int32_t rank, bool computed) {
    std::int32_t position = state_.cursor[index(rank)];
    const std::int32_t end = flat_.rank_begin[index(rank) + 1];
    std::int32_t missing = kNone;
    for (; position < end && missing == kNone; position += missing == kNone ? 1 : 0) {
      if (flat_.ops[index(position)] == FlatOp::compute) {
        if (computed) {
          wake(rank);
          break;
        }
        computed = true;
      }
      missing = step(rank, position);
    }
    state_.cursor[index(rank)] = position;
    stands_at_[index(rank)] = missing;
    if (is_large_) fetch(position, end);
  }

  /// Prefetches the data that the rank needs when it moves next, while other ranks move. The function must be
  /// inlined, because a compiler may remove a function that only prefetches.
  [[gnu::always_inline]] void fetch(std::int32_t position, std::int32_t end) const {
    if (position == end) return;
    const std::size_t next_line = index(std::min(position + 16, end - 1));
    __builtin_prefetch(&flat_.ops[next_line]);
    __builtin_prefetch(&flat_.message[next_line]);
    __builtin_prefetch(&flat_.next_wait[next_line]);
    __builtin_prefetch(&flat_.actions[index(position)]);
    // The next three positions are prefetched. They are usually a compute action, its SEND and the RECV of
    // the next compute action.
    const std::int32_t behind = std::min(position + 3, end);
    for (; position < behind; ++position) {
      const std::int32_t message = flat_.message[index(position)];
      if (message == kNone) continue;
      __builtin_prefetch(&flat_.messages[index(message)]);
      __builtin_prefetch(&flat_.messages[index(message)].bytes);
    }
  }

  /// Moves a rank over one position or a whole group. If the rank must wait, returns the message that it
  /// waits for, and otherwise kNone.
  std::int32_t step(std::int32_t rank, std::int32_t& position) {
    switch (flat_.ops[index(position)]) {
      case FlatOp::compute:
        return compute(rank, position);
      case FlatOp::leaf:
      case FlatOp::reshard:
        sink_.pass(rank, position);
        return kNone;
      case FlatOp::send:
        if (has_groups_ && flat_.is_grouped(position)) return reach_group(rank, position);
        reach_send(rank, position);
        return kNone;
      case FlatOp::recv:
        if (has_groups_ && flat_.is_grouped(position)) return reach_group(rank, position);
        reach_recv(rank, position);
        return kNone;
      case FlatOp::collective:
        reach_collective(rank, position);
        return kNone;
      case FlatOp::barrier:
        return reach_barrier(rank, position);
      case FlatOp::wait:
        return reach_wait(rank, position);
    }
    return kNone;
  }

  std::int32_t compute(std::int32_t rank, std::int32_t& position) {
    inputs_.clear();
    for (std::int32_t w = flat_.next_wait[index(position)]; w != kNone; w = flat_.next_wait[index(w)]) {
      const std::int32_t message = flat_.message[index(w)];
      if (!started(message)) return message;
      inputs_.push_back(message);
    }
    launch(rank, position);
    sink_.compute(rank, position, inputs_);
    if (!flat_.released_by_consumer.empty()) free_capacity(rank, position);
    const std::int32_t end = flat_.group_end(position);
    while (position + 1 < end) sink_.pass(rank, ++position);
    return kNone;
  }

  /// Records that the compute action at `position` has freed places in a queue. Each message that waited for
  /// such a place then waits for one event less.
  void free_capacity(std::int32_t rank, std::int32_t position) {
    std::int32_t message = flat_.released_by_consumer[index(position)];
    for (; message != kNone; message = flat_.messages[index(message)].next_of_capacity)
      raise(message, {.kind = CauseKind::clock, .rank = rank});
  }

  void reach_send(std::int32_t rank, std::int32_t position) {
    const std::int32_t message = flat_.message[index(position)];
    launch(rank, position);
    const std::int32_t producer = flat_.messages[index(message)].producer;
    if (producer == kNone) {
      raise(message, launched({.rank = rank}));
    } else {
      raise(message, launched({.kind = CauseKind::producer, .rank = rank, .which = producer}));
    }
  }

  void reach_recv(std::int32_t rank, std::int32_t position) {
    const std::int32_t message = flat_.message[index(position)];
    launch(rank, position);
    if (waits_its_turn(message)) raise(message, launched({.rank = rank}));
  }

  void reach_collective(std::int32_t rank, std::int32_t position) {
    launch(rank, position);
    raise(flat_.message[index(position)], launched({.kind = CauseKind::clock, .rank = rank}));
  }

  /// Returns true if a message starts only after its receiver has posted the RECV. Eager messages do not
  /// wait for this.
  bool waits_its_turn(std::int32_t message) const {
    return !some_eager_ || !flat_.messages[index(message)].eager;
  }

  // A rank that was woken reaches the same position again. `stands_at_` stores the position that was already
  // reported, so that it is not reported twice.

  /// Posts a group of transfers. Then waits for all of them, unless waits_in_group() is false for the
  /// group. Returns a message that the rank must wait for, or kNone.
  std::int32_t reach_group(std::int32_t rank, std::int32_t& position) {
    const std::int32_t end = flat_.transfer_group_end(position);
    const bool stands_here = stands_at_[index(rank)] != kNone && state_.cursor[index(rank)] == position;
    if (!stands_here) post_group(rank, position, end);
    if (!flat_.waits_in_group(position)) {
      position = end - 1;
      return kNone;
    }
    for (std::int32_t p = position; p < end; ++p) {
      if (is_transfer_at(p) && !started(flat_.message[index(p)])) return flat_.message[index(p)];
    }
    for (std::int32_t p = position; p < end; ++p) {
      if (is_transfer_at(p)) sink_.wait(rank, flat_.message[index(p)]);
    }
    position = end - 1;
    return kNone;
  }

  void post_group(std::int32_t rank, std::int32_t begin, std::int32_t end) {
    launch(rank, begin);
    for (std::int32_t p = begin; p < end; ++p) {
      const std::int32_t message = flat_.message[index(p)];
      if (!is_transfer_at(p)) continue;
      if (flat_.ops[index(p)] == FlatOp::send || waits_its_turn(message))
        raise(message, launched({.kind = CauseKind::clock, .rank = rank}));
    }
    // The rank does not wait for the collectives between the transfers, so it reaches them at the same time.
    for (std::int32_t p = begin; p < end; ++p) {
      if (flat_.ops[index(p)] == FlatOp::collective) reach_collective(rank, p);
      if (flat_.ops[index(p)] == FlatOp::reshard) sink_.pass(rank, p);
    }
  }

  bool is_transfer_at(std::int32_t position) const {
    const FlatOp op = flat_.ops[index(position)];
    return op == FlatOp::send || op == FlatOp::recv;
  }

  std::int32_t reach_barrier(std::int32_t rank, std::int32_t position) {
    const std::int32_t message = flat_.message[index(position)];
    if (stands_at_[index(rank)] != message) raise(message, {.kind = CauseKind::clock, .rank = rank});
    return wait_for(rank, message);
  }

  /// Waits for the SENDs or the REDUCE_GRAD of a WAIT action. Returns a message that the rank must wait
  /// for, or kNone.
  std::int32_t reach_wait(std::int32_t rank, std::int32_t position) {
    const std::int32_t first = flat_.next_wait[index(position)];
    for (std::int32_t w = first; w != kNone; w = flat_.next_wait[index(w)]) {
      if (!started(flat_.message[index(w)])) return flat_.message[index(w)];
    }
    for (std::int32_t w = first; w != kNone; w = flat_.next_wait[index(w)])
      sink_.wait(rank, flat_.message[index(w)]);
    sink_.pass(rank, position);
    return kNone;
  }

  /// Returns kNone if the message has started. Otherwise returns the message, for which the rank must wait.
  std::int32_t wait_for(std::int32_t rank, std::int32_t message) {
    if (!started(message)) return message;
    sink_.wait(rank, message);
    return kNone;
  }

  void launch(std::int32_t rank, std::int32_t position) {
    if (flat_.has_launches) sink_.launch(rank, position);
  }
  Cause launched(Cause cause) const {
    cause.launched = flat_.has_launches;
    return cause;
  }

  /// Records that one event has happened for which a message waits. If it was the last one, starts the
  /// message. The function is inlined, because each caller knows the kind of the event at compile time.
  [[gnu::always_inline]] void raise(std::int32_t message, const Cause& cause) {
    const bool last = --state_.pending[index(message)] == 0;
    sink_.raise(message, cause, last);
    if (last) make_ready(message, cause);
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
    wake(message.to_rank, id);
    if (senders_wait_) wake(message.from_rank, id);
    if (has_followers_) {
      follow(id, message.to_rank, message.recv);
      follow(id, message.from_rank, message.first);
      return;
    }
    // The message after this one in the receiver's queue comes first. A sink may find the time of this
    // release in the sender's queue. The next message in the sender's queue overwrites that time when it
    // starts.
    if (message.next_at_receiver != kNone)
      raise(message.next_at_receiver, {.kind = CauseKind::release, .rank = message.to_rank, .which = id});
    if (message.next_at_sender != kNone)
      raise(message.next_at_sender, {.kind = CauseKind::release, .rank = message.from_rank, .which = id});
  }

  /// Records that message `id` has left a queue of `rank`. The messages behind it in this queue then wait for
  /// one event less.
  void follow(std::int32_t id, std::int32_t rank, std::int32_t position) {
    for_each_follower(flat_, model_, position, flat_.rank_begin[index(rank) + 1], [&](std::int32_t follower) {
      raise(flat_.message[index(follower)], {.kind = CauseKind::release, .rank = rank, .which = id});
    });
  }

  /// Wakes the members of a collective or barrier that has started. The next collective of each member then
  /// waits for one event less. After an OFFLOAD, its RELOAD also waits for one event less.
  void follow_collective(std::int32_t id) {
    std::int32_t member = flat_.messages[index(id)].first;
    for (; member != kNone; member = flat_.next_member[index(member)]) {
      const std::int32_t rank = flat_.rank_of(member);
      wake(rank, id);
      const std::int32_t next = flat_.next_collective[index(member)];
      if (next == kNone) continue;
      raise(flat_.message[index(next)], {.kind = CauseKind::collective, .rank = rank, .which = id});
    }
    const FlatMessage& ended = flat_.messages[index(id)];
    if (ended.next_at_receiver == kNone) return;
    raise(ended.next_at_receiver,
          {.kind = CauseKind::collective, .rank = flat_.rank_of(ended.first), .which = id});
  }

  void wake(std::int32_t rank, std::int32_t message) {
    if (stands_at_[index(rank)] == message) wake(rank);
  }
  void wake(std::int32_t rank) {
    const std::size_t place = first_awake_ + awake_count_++;
    awake_[place < awake_.size() ? place : place - awake_.size()] = rank;
  }

  const FlatProgram& flat_;
  bool has_groups_;     // true if ranks wait for transfers
  bool senders_wait_;   // true if ranks wait for transfers that they send
  bool has_followers_;  // true if messages of one group pass side by side in a queue
  ChannelModel model_;
  bool some_eager_;  // true if the channels allow eager messages
  bool is_large_;    // true if the program is too large for a processor's cache
  Sink& sink_;
  std::vector<std::int32_t> stands_at_;  // message that each rank waits for
  std::vector<std::int32_t> awake_;      // a ring buffer that contains each rank at most once
  std::size_t first_awake_ = 0;
  std::size_t awake_count_ = 0;
  std::vector<Ready> ready_;          // the messages that can start, in the order of their last causes
  std::vector<std::int32_t> inputs_;  // the messages that the current compute action waits for
  WalkState state_;
};

}  // namespace penstock
