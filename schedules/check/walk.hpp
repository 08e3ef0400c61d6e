#pragma once
// Follows a flat program as its lists stand, rank by rank, and tells a sink what happens: the one place where
// program order, queues and waiting are decided. What times that gives (rendezvous_walk.cpp), or which
// instructions that writes (sim/engines/compile.cpp), is the sink's affair; where the walk stalls, its state
// is what the cycle of a hang is read from (channel_check.cpp).
//
//   rank 0:  0F0 0SEND_F0 | 0F1 ...      ranks take turns of one compute action each; one that needs a
//   rank 1:  1RECV_F0 | 1F0 ...          message that has not started stands until it does, and comes last
//                                        then
//
// Turns that short let a RECV be reached before its SEND, so that a message starts with its producer's end,
// and put what different ranks do beside each other, which keeps a processor busy that follows the same
// order.
//
// No event queue: what an action waits for does not depend on how long anything takes, so neither does the
// order of the walk, and a program hangs for all durations or for none.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "schedules/check/flat_program.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {

/// Why a message, collective or barrier has come a step closer to its start.
enum class CauseKind : std::uint8_t {
  listed,      // program order has reached its RECV, or its SEND, which nothing produces for: takes no time
  clock,       // program order of `rank` has come to it, or to the consumer that frees its place
  producer,    // the compute action at position `which` of `rank` has produced it
  release,     // message `which`, which was before it in a queue of `rank`, has left that queue
  collective,  // collective `which`, which was before it among those of `rank`, has ended
};

struct Cause {
  CauseKind kind = CauseKind::listed;
  std::int32_t rank = kNone;
  std::int32_t which = kNone;
  bool launched = false;  // the host of `rank` has come to it, too; what it launched last
};

/// Where a walk that hangs stands for ever. channel_check.cpp reads the cycle from it.
struct WalkState {
  std::vector<std::int32_t> cursor;   ///< by rank: the position that it could not pass, or its list's end
  std::vector<std::int32_t> pending;  ///< by message: what it still waits for; 0 when it could start
};

/// One walk. A sink has these members, called in an order in which everything that a call refers to has been
/// told before:
///
///   void compute(std::int32_t rank, std::int32_t position, std::span<const std::int32_t> messages);
///       The group of compute actions at `position` runs, after what came before it on the rank and
///       `messages`.
///   void pass(std::int32_t rank, std::int32_t position);
///       A position that takes no time: a further leaf of a group, a RESHARD.
///   void raise(std::int32_t message, const Cause& cause, bool last);
///       The message starts no earlier than `cause`; the last one is followed by its start().
///   void start(std::int32_t message, const Cause& last);
///       Nothing keeps it any more. In the order of their last causes, before anything follows from it, and
///       before anything else runs.
///   void wait(std::int32_t rank, std::int32_t message);
///       Program order of the rank goes on when the message has ended.
///   void launch(std::int32_t rank, std::int32_t position);
///       The rank's host launches a group of compute actions, a SEND, RECV or collective, in list order;
///       where the program has launches. Told right before the position's compute() or raise().
template <class Sink>
class ListWalk {
 public:
  /// Both must outlive the walk.
  ListWalk(const FlatProgram& flat, const ChannelOptions& channels, Sink& sink)
      : flat_(flat),
        blocking_(channels.blocking),
        some_eager_(channels.eager_bytes > 0),
        is_large_(flat.position_count() > 500'000),
        sink_(sink) {
    state_.cursor.assign(flat.rank_begin.begin(), flat.rank_begin.end() - 1);
    state_.pending.reserve(flat.messages.size());
    for (const FlatMessage& message : flat.messages) state_.pending.push_back(message.pending);
    stands_at_.assign(state_.cursor.size(), kNone);
    awake_.resize(state_.cursor.size());
  }

  /// Goes on to the end, or until nothing can move: then its state. O(positions).
  std::optional<WalkState> run() && {
    // What is before the first compute actions goes first, so that the first RECVs are reached before SENDs.
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
  /// A message that nothing keeps any more and whose start has not been told.
  struct Ready {
    std::int32_t message = kNone;
    Cause last{};
  };

  bool started(std::int32_t message) const { return state_.pending[index(message)] == 0; }

  /// Goes on until the rank has to wait, or up to its second group of compute actions; up to the first one
  /// if it has `computed`.
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

  /// Asks memory for what the rank's next turn will read: the other ranks have theirs before it, which is
  /// time enough. (Inline always, since a compiler may take a function that only prefetches for one without
  /// effect.)
  [[gnu::always_inline]] void fetch(std::int32_t position, std::int32_t end) const {
    if (position == end) return;
    const std::size_t next_line = index(std::min(position + 16, end - 1));
    __builtin_prefetch(&flat_.ops[next_line]);
    __builtin_prefetch(&flat_.message[next_line]);
    __builtin_prefetch(&flat_.next_wait[next_line]);
    __builtin_prefetch(&flat_.actions[index(position)]);
    const std::int32_t behind =
        std::min(position + 3, end);  // a compute action, its SEND, the next one's RECV
    for (; position < behind; ++position) {
      const std::int32_t message = flat_.message[index(position)];
      if (message == kNone) continue;
      __builtin_prefetch(&flat_.messages[index(message)]);
      __builtin_prefetch(&flat_.messages[index(message)].bytes);
    }
  }

  /// Passes one position, or a whole group, or returns the message that is missing for it.
  std::int32_t step(std::int32_t rank, std::int32_t& position) {
    switch (flat_.ops[index(position)]) {
      case FlatOp::compute:
        return compute(rank, position);
      case FlatOp::leaf:
      case FlatOp::reshard:
        sink_.pass(rank, position);
        return kNone;
      case FlatOp::send:
        return reach_send(rank, position);
      case FlatOp::recv:
        return reach_recv(rank, position);
      case FlatOp::collective:
        launch(rank, position);
        raise(flat_.message[index(position)], launched({.kind = CauseKind::clock, .rank = rank}));
        return kNone;
      case FlatOp::barrier:
        return reach_barrier(rank, position);
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

  /// The consumer has run: the messages that waited for the places that it held come a step closer.
  void free_capacity(std::int32_t rank, std::int32_t position) {
    std::int32_t message = flat_.released_by_consumer[index(position)];
    for (; message != kNone; message = flat_.messages[index(message)].next_of_capacity)
      raise(message, {.kind = CauseKind::clock, .rank = rank});
  }

  // A rank that stood still at a position comes to it again when it is woken; what was told the first time is
  // not told again (stands_at_).

  std::int32_t reach_send(std::int32_t rank, std::int32_t position) {
    const std::int32_t message = flat_.message[index(position)];
    if (stands_at_[index(rank)] != message) {
      launch(rank, position);
      const std::int32_t producer = flat_.messages[index(message)].producer;
      if (blocking_) {
        raise(message, launched({.kind = CauseKind::clock, .rank = rank}));
      } else if (producer == kNone) {
        raise(message, launched({.rank = rank}));
      } else {
        raise(message, launched({.kind = CauseKind::producer, .rank = rank, .which = producer}));
      }
    }
    return blocking_ ? wait_for(rank, message) : kNone;
  }

  std::int32_t reach_recv(std::int32_t rank, std::int32_t position) {
    const std::int32_t message = flat_.message[index(position)];
    const bool first_time = stands_at_[index(rank)] != message;
    const bool waits_its_turn = !some_eager_ || !flat_.messages[index(message)].eager;
    if (first_time) launch(rank, position);
    if (first_time && waits_its_turn) {
      raise(message, launched({.kind = blocking_ ? CauseKind::clock : CauseKind::listed, .rank = rank}));
    }
    return blocking_ ? wait_for(rank, message) : kNone;
  }

  std::int32_t reach_barrier(std::int32_t rank, std::int32_t position) {
    const std::int32_t message = flat_.message[index(position)];
    if (stands_at_[index(rank)] != message) raise(message, {.kind = CauseKind::clock, .rank = rank});
    return wait_for(rank, message);
  }

  /// Nothing to wait for, or the message.
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

  /// Inline at each call, which knows the kind of its cause.
  [[gnu::always_inline]] void raise(std::int32_t message, const Cause& cause) {
    const bool last = --state_.pending[index(message)] == 0;
    sink_.raise(message, cause, last);
    if (last) make_ready(message, cause);
  }

  void make_ready(std::int32_t message, const Cause& cause) {
    ready_.push_back({message, cause});
    if (ready_.size() > 1) return;  // the outer call works the list off: chains of queues do not nest
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
    if (blocking_) wake(message.from_rank, id);
    // The receiver's end first: until what follows at the sender's has started, the sender's queue says when
    // this message left it.
    if (message.next_at_receiver != kNone)
      raise(message.next_at_receiver, {.kind = CauseKind::release, .rank = message.to_rank, .which = id});
    if (message.next_at_sender != kNone)
      raise(message.next_at_sender, {.kind = CauseKind::release, .rank = message.from_rank, .which = id});
  }

  /// Wakes the members of a collective or barrier that has started, and brings each one's next one closer.
  void follow_collective(std::int32_t id) {
    std::int32_t member = flat_.messages[index(id)].first;
    for (; member != kNone; member = flat_.next_member[index(member)]) {
      const std::int32_t rank = flat_.rank_of(member);
      wake(rank, id);
      const std::int32_t next = flat_.next_collective[index(member)];
      if (next == kNone) continue;
      raise(flat_.message[index(next)], {.kind = CauseKind::collective, .rank = rank, .which = id});
    }
  }

  void wake(std::int32_t rank, std::int32_t message) {
    if (stands_at_[index(rank)] == message) wake(rank);
  }
  void wake(std::int32_t rank) {
    const std::size_t place = first_awake_ + awake_count_++;
    awake_[place < awake_.size() ? place : place - awake_.size()] = rank;
  }

  const FlatProgram& flat_;
  bool blocking_;
  bool some_eager_;  // there may be eager messages
  bool is_large_;    // no processor's cache holds the program
  Sink& sink_;
  std::vector<std::int32_t> stands_at_;  // by rank: the message it waits for
  std::vector<std::int32_t> awake_;      // a ring: each rank at most once
  std::size_t first_awake_ = 0;
  std::size_t awake_count_ = 0;
  std::vector<Ready> ready_;          // in the order of their last causes
  std::vector<std::int32_t> inputs_;  // of the compute action at hand
  WalkState state_;
};

}  // namespace penstock
