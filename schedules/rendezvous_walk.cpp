// A depth-first walk without an event queue: a rank runs ahead until it needs a message that is not done; a
// message that becomes done wakes the rank that stands waiting for it. Times are maxima over what each
// action waited for, so the order of the walk does not change them.

#include "schedules/rendezvous_walk.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "schedules/action.hpp"
#include "schedules/channel.hpp"
#include "schedules/flat_program.hpp"

namespace penstock {
namespace {

std::size_t index(std::int32_t number) { return static_cast<std::size_t>(number); }

class Walker {
 public:
  Walker(const FlatProgram& flat, const WalkDurations& durations, const ChannelOptions& channels)
      : flat_(flat),
        durations_(durations),
        blocking_(channels.blocking),
        clock_(index(flat.rank_count), 0),
        stands_at_(index(flat.rank_count), kNone) {
    walk_.cursor.assign(flat.rank_begin.begin(), flat.rank_begin.end() - 1);
    walk_.start.assign(flat.ops.size(), 0);
    walk_.end.assign(flat.ops.size(), 0);
    walk_.message_start.assign(flat.messages.size(), 0);
    walk_.message_end.assign(flat.messages.size(), 0);
    walk_.pending.reserve(flat.messages.size());
    for (const FlatMessage& message : flat.messages) walk_.pending.push_back(message.pending);
  }

  Walk run() {
    for (std::int32_t rank = flat_.rank_count - 1; rank >= 0; --rank) awake_.push_back(rank);
    while (!awake_.empty()) {
      const std::int32_t rank = awake_.back();
      awake_.pop_back();
      advance(rank);
    }
    walk_.finished = true;
    for (std::size_t rank = 0; rank < clock_.size(); ++rank) {
      walk_.finished &= walk_.cursor[rank] == flat_.rank_begin[rank + 1];
    }
    return std::move(walk_);
  }

 private:
  static Ns at(const std::vector<Ns>& times, std::int32_t i) { return times.empty() ? 0 : times[index(i)]; }

  void advance(std::int32_t rank) {
    std::int32_t& position = walk_.cursor[index(rank)];
    const std::int32_t end = flat_.rank_begin[index(rank) + 1];
    while (position < end) {
      const std::int32_t missing = step(rank, position);
      if (missing != kNone) {
        stands_at_[index(rank)] = missing;
        return;
      }
      ++position;
    }
  }

  /// Passes one position, or returns the message that is missing for it.
  std::int32_t step(std::int32_t rank, std::int32_t position) {
    switch (flat_.ops[index(position)]) {
      case FlatOp::compute:
        return compute(rank, position);
      case FlatOp::leaf:
      case FlatOp::reshard:
        walk_.start[index(position)] = walk_.end[index(position)] = clock_[index(rank)];
        return kNone;
      case FlatOp::send:
        return reach_send(rank, position);
      case FlatOp::recv:
        return reach_recv(rank, position);
      case FlatOp::collective:
        reach(rank, position);
        return kNone;
      case FlatOp::barrier:
        return reach_barrier(rank, position);
    }
    return kNone;
  }

  std::int32_t compute(std::int32_t rank, std::int32_t position) {
    Ns start = clock_[index(rank)];
    for (std::int32_t w = flat_.next_wait[index(position)]; w != kNone; w = flat_.next_wait[index(w)]) {
      const std::int32_t id = flat_.message[index(w)];
      if (walk_.pending[index(id)] > 0) return id;
      start = std::max(start, walk_.message_end[index(id)]);
    }
    const Ns end = start + at(durations_.compute, position);
    const std::int32_t last = flat_.group_end(position);
    for (std::int32_t leaf = position; leaf < last; ++leaf) {
      walk_.start[index(leaf)] = start;
      walk_.end[index(leaf)] = end;
    }
    clock_[index(rank)] = end;
    walk_.cursor[index(rank)] = last - 1;  // advance() steps over it
    if (!flat_.released_by_consumer.empty()) free_capacity(position, end);
    return kNone;
  }

  void free_capacity(std::int32_t position, Ns end) {
    std::int32_t id = flat_.released_by_consumer[index(position)];
    for (; id != kNone; id = flat_.messages[index(id)].next_of_capacity) settle(id, end);
  }

  std::int32_t reach_send(std::int32_t rank, std::int32_t position) {
    const std::int32_t id = flat_.message[index(position)];
    const FlatMessage& transfer = flat_.messages[index(id)];
    if (stands_at_[index(rank)] != id) {
      const Ns produced = transfer.producer == kNone ? 0 : walk_.end[index(transfer.producer)];
      settle(id, blocking_ ? clock_[index(rank)] : produced);
    }
    return blocking_ ? wait_for(rank, id) : kNone;
  }

  std::int32_t reach_recv(std::int32_t rank, std::int32_t position) {
    const std::int32_t id = flat_.message[index(position)];
    const bool first_time = stands_at_[index(rank)] != id;
    if (first_time && !flat_.messages[index(id)].eager) settle(id, blocking_ ? clock_[index(rank)] : 0);
    return blocking_ ? wait_for(rank, id) : kNone;
  }

  void reach(std::int32_t rank, std::int32_t position) {
    settle(flat_.message[index(position)], clock_[index(rank)]);
  }

  std::int32_t reach_barrier(std::int32_t rank, std::int32_t position) {
    const std::int32_t id = flat_.message[index(position)];
    if (stands_at_[index(rank)] != id) reach(rank, position);
    return wait_for(rank, id);
  }

  std::int32_t wait_for(std::int32_t rank, std::int32_t id) {
    if (walk_.pending[index(id)] > 0) return id;
    clock_[index(rank)] = std::max(clock_[index(rank)], walk_.message_end[index(id)]);
    return kNone;
  }

  /// One of the things that message `id` waits for happened at `time`; starts it when it was the last.
  void settle(std::int32_t id, Ns time) {
    Ns& start = walk_.message_start[index(id)];
    start = std::max(start, time);
    if (--walk_.pending[index(id)] > 0) return;
    started_.push_back(id);
    if (started_.size() > 1) return;  // the outer call works the list off: chains of queues do not nest
    for (std::size_t i = 0; i < started_.size(); ++i) finish(started_[i]);
    started_.clear();
  }

  void finish(std::int32_t id) {
    const FlatMessage& message = flat_.messages[index(id)];
    const Ns released = walk_.message_start[index(id)] + at(durations_.hold, id);
    walk_.message_end[index(id)] = released + at(durations_.latency, id);
    if (message.recv == kNone) {
      finish_collective(id);
      return;
    }
    wake(message.to_rank, id);
    if (blocking_) wake(message.from_rank, id);
    if (message.next_at_sender != kNone) settle(message.next_at_sender, released);
    if (message.next_at_receiver != kNone) settle(message.next_at_receiver, released);
  }

  void finish_collective(std::int32_t id) {
    std::int32_t member = flat_.messages[index(id)].first;
    for (; member != kNone; member = flat_.next_member[index(member)]) {
      wake(flat_.rank_of(member), id);
      const std::int32_t next = flat_.next_collective[index(member)];
      if (next != kNone) settle(flat_.message[index(next)], walk_.message_end[index(id)]);
    }
  }

  void wake(std::int32_t rank, std::int32_t id) {
    if (stands_at_[index(rank)] == id) awake_.push_back(rank);
  }

  const FlatProgram& flat_;
  const WalkDurations& durations_;
  bool blocking_;
  std::vector<Ns> clock_;                // by rank: end of what program order has passed
  std::vector<std::int32_t> stands_at_;  // by rank: the message it waits for
  std::vector<std::int32_t> awake_;
  std::vector<std::int32_t> started_;
  Walk walk_;
};

}  // namespace

Walk walk(const FlatProgram& flat, const WalkDurations& durations, const ChannelOptions& channels) {
  return Walker(flat, durations, channels).run();
}

}  // namespace penstock
