// Counts the message buffers ("slots") that threads need when they run ahead of their GPUs. The threads are a
// network of processes that exchange messages over bounded buffers (Kahn 1974). If such a network deadlocks
// in one order of its processes, it deadlocks in every order. So one order is simulated, in which each rank
// takes one step in each round. The messages of an edge use its slots cyclically. An edge needs a slot for
// each message from the oldest message that is not received to the newest message that is enqueued. With two
// more slots, a thread can run ahead:
//
//     edge 0 -> 1   given   F0 F1 F2              taken  F0      window  F1 F2: two slots, and two more
//
// The simulation has no limit of slots, so the number that it uses is sufficient for every other order of the
// threads. At a WAIT or a group of transfers, a thread waits until all transfers are enqueued. At a
// GROUP_NOWAIT, it does not wait. A transfer whose RECV is in a group is enqueued when both ranks have
// reached it.

#include "backend/cuda/local_transport.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "schedules/check/flat_program.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {
namespace {

constexpr std::size_t kSpare = 2;  // extra slots, so that one can be filled while another is unpacked

/// The messages of each edge (ordered pair of ranks), in the order of sending.
using Fifos = std::map<LinkSlots::Edge, std::vector<std::int32_t>>;

Fifos fifos_of(const FlatProgram& flat) {
  std::vector<bool> is_behind(flat.messages.size());
  for (const FlatMessage& message : flat.messages) {
    if (message.recv != kNone && message.next_at_sender != kNone)
      is_behind[index(message.next_at_sender)] = true;
  }
  Fifos fifos;
  for (std::int32_t head = 0; head < static_cast<std::int32_t>(flat.messages.size()); ++head) {
    // Skips collectives, and transfers that are not the first of their queue. From each first transfer, the
    // inner loop visits all transfers of the queue.
    if (flat.messages[index(head)].recv == kNone || is_behind[index(head)]) continue;
    for (std::int32_t id = head; id != kNone; id = flat.messages[index(id)].next_at_sender) {
      const FlatMessage& message = flat.messages[index(id)];
      fifos[{message.from_rank, message.to_rank}].push_back(id);
    }
  }
  return fifos;
}

/// The messages of one edge that need a slot. They go from the oldest message that is not received to the
/// newest message that is enqueued.
struct Window {
  std::vector<bool> taken;
  std::size_t oldest = 0;
  std::size_t most = 0;

  void give(std::size_t place) { most = std::max(most, place + 1 - std::min(oldest, place)); }
  void take(std::size_t place) {
    taken[place] = true;
    while (oldest < taken.size() && taken[oldest]) ++oldest;
  }
};

/// A simulation of the threads that run the lists of all ranks. In each round, each thread passes at most one
/// position.
class ThreadWalk {
 public:
  ThreadWalk(const FlatProgram& flat, const Fifos& fifos)
      : flat_(flat),
        given_(flat.messages.size()),
        missing_(flat.messages.size()),
        posted_(flat.ops.size()),
        place_(flat.messages.size()),
        sent_by_(flat.ops.size()) {
    for (std::size_t id = 0; id < flat.messages.size(); ++id) {
      const FlatMessage& message = flat.messages[id];
      if (message.recv != kNone) {
        missing_[id] = flat.is_grouped(message.recv) ? 2 : 1;
        if (!flat.is_grouped(message.first))
          sent_by_[index(message.producer)].push_back(static_cast<std::int32_t>(id));
        continue;
      }
      for (std::int32_t m = message.first; m != kNone; m = flat.next_member[index(m)]) ++missing_[id];
    }
    for (const auto& [edge, fifo] : fifos) {
      windows_[edge].taken.resize(fifo.size());
      for (std::size_t place = 0; place < fifo.size(); ++place) place_[index(fifo[place])] = place;
    }
  }

  std::map<LinkSlots::Edge, Window> windows() {
    std::vector<std::int32_t> at(flat_.rank_begin.begin(), flat_.rank_begin.end() - 1);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < at.size(); ++rank) {
        if (at[rank] == flat_.rank_begin[rank + 1]) continue;
        const bool is_passed = passes(at[rank]);
        // Posting a group also counts as progress, even if this thread then waits, because other threads may
        // now continue.
        moved |= is_passed || std::exchange(has_posted_, false);
        if (is_passed) ++at[rank];
      }
    }
    return windows_;
  }

 private:
  /// Returns true if the rank's thread can pass the position in its list now. Otherwise the thread waits
  /// there for a message.
  bool passes(std::int32_t position) {
    if (flat_.is_grouped(position)) return passes_group(position);
    const FlatOp op = flat_.ops[index(position)];
    // A thread does not wait when it reaches a collective, so this line runs once for each member. The action
    // that needs the result waits in has_inputs().
    if (op == FlatOp::collective || op == FlatOp::barrier) --missing_[index(flat_.message[index(position)])];
    if (op == FlatOp::wait) return has_inputs(position);
    if (op != FlatOp::compute) return true;
    if (!has_inputs(position)) return false;
    for (std::int32_t w = flat_.next_wait[index(position)]; w != kNone; w = flat_.next_wait[index(w)]) {
      const std::int32_t id = flat_.message[index(w)];
      if (flat_.messages[index(id)].recv != kNone) window_of(id).take(place_[index(id)]);
    }
    for (std::int32_t p = position; p < flat_.group_end(position); ++p) {
      for (const std::int32_t id : sent_by_[index(p)]) reach(id);
    }
    return true;
  }

  /// Posts the whole group of transfers when the thread comes to the group's first position. Returns true if
  /// all transfers of the group are enqueued. If the rank does not wait for the group, returns true at once.
  bool passes_group(std::int32_t position) {
    const std::int32_t first = flat_.transfer_group[index(position)];
    if (position != first) return true;
    const std::int32_t end = flat_.transfer_group_end(first);
    if (!posted_[index(first)]) {
      posted_[index(first)] = has_posted_ = true;
      for (std::int32_t p = first; p < end; ++p) {
        const std::int32_t id = flat_.message[index(p)];
        if (flat_.ops[index(p)] == FlatOp::collective) --missing_[index(id)];
        if (is_transfer(p)) reach(id);
      }
    }
    if (!flat_.waits_in_group(first)) return true;
    for (std::int32_t p = first; p < end; ++p) {
      if (is_transfer(p) && !given_[index(flat_.message[index(p)])]) return false;
    }
    return true;
  }

  bool is_transfer(std::int32_t position) const {
    return flat_.ops[index(position)] == FlatOp::send || flat_.ops[index(position)] == FlatOp::recv;
  }

  /// Records that one rank has reached the transfer `id`: the sender, or the receiver if its RECV is in a
  /// group.
  void reach(std::int32_t id) {
    if (--missing_[index(id)] > 0) return;
    given_[index(id)] = true;
    window_of(id).give(place_[index(id)]);
  }

  bool has_inputs(std::int32_t position) const {
    for (std::int32_t w = flat_.next_wait[index(position)]; w != kNone; w = flat_.next_wait[index(w)]) {
      const std::int32_t id = flat_.message[index(w)];
      const bool is_transfer = flat_.messages[index(id)].recv != kNone;
      if (is_transfer ? !given_[index(id)] : missing_[index(id)] > 0) return false;
    }
    return true;
  }

  Window& window_of(std::int32_t id) {
    const FlatMessage& message = flat_.messages[index(id)];
    return windows_.at({message.from_rank, message.to_rank});
  }

  const FlatProgram& flat_;
  std::vector<bool> given_;
  // The number of ranks that have not yet reached each message, by message. For a collective, all members
  // count. For a transfer, the sender counts, and the receiver only if its RECV is in a group.
  std::vector<std::int32_t> missing_;
  std::vector<bool> posted_;  // true if the group of transfers that begins at the position has been posted
  bool has_posted_ = false;   // true if a group has been posted since the flag was cleared
  std::vector<std::size_t> place_;  // index of each message in its edge's queue
  // The messages that each action sends, by position of the action.
  std::vector<std::vector<std::int32_t>> sent_by_;
  std::map<LinkSlots::Edge, Window> windows_;
};

}  // namespace

LinkSlots link_slots(const FlatProgram& flat) {
  const Fifos fifos = fifos_of(flat);
  const std::map<LinkSlots::Edge, Window> windows = ThreadWalk(flat, fifos).windows();
  LinkSlots slots{.count = {},
                  .slot = std::vector<std::int32_t>(flat.messages.size(), kNone),
                  .next = std::vector<std::int32_t>(flat.messages.size(), kNone)};
  for (const auto& [edge, fifo] : fifos) {
    // An edge never uses more slots than it has messages.
    const std::size_t count = std::min(windows.at(edge).most + kSpare, fifo.size());
    slots.count[edge] = static_cast<std::int32_t>(count);
    for (std::size_t i = 0; i < fifo.size(); ++i) {
      slots.slot[index(fifo[i])] = static_cast<std::int32_t>(i % count);
      if (i + count < fifo.size()) slots.next[index(fifo[i])] = fifo[i + count];
    }
  }
  return slots;
}

}  // namespace penstock
