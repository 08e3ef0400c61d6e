// A flat program holds its queues as threads: each message names the one behind it at either end. The
// messages of one thread are one queue. Each hands its queue on to the one behind it; where that was met
// first and has opened a queue, the two are joined as sets that are disjoint (Tarjan, J. ACM 22, 1975).
//
//   rank 0 sends   m0 -> m1 -> m2
//   rank 1 gets    m0 -> m1 -> m2     the same messages: one register
//   rank 2 gets    m3 -> m4           a queue of its own
//
// Where both ends hold the same messages, whatever leaves the one leaves the other at that moment.

#include "sim/engines/queue_registers.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "schedules/check/flat_program.hpp"
#include "schedules/ir/index.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {
namespace {

class Queues {
 public:
  explicit Queues(const FlatProgram& flat) : flat_(flat), ends_(flat.messages.size()) {
    thread_ends();
    pair_ends();
  }

  /// Numbers from `first` on, in the order in which messages meet queues.
  QueueRegisters registers(Register first) && {
    std::vector<Register> number(parts_.size(), kNoRegister);
    Register next = first;
    const auto numbered = [&](Register part) {
      if (part == kNoRegister) return part;
      Register& known = number[parts_[part].queue];
      if (known == kNoRegister) known = next++;
      return known;
    };
    for (QueueEnds& ends : ends_) {
      ends.sender = numbered(ends.sender);
      ends.receiver = numbered(ends.receiver);
    }
    return {.ends = std::move(ends_), .count = next - first};
  }

 private:
  static constexpr Register kSeveral = kNoRegister - 1;

  /// A part of a thread, from a message on that was met before the one ahead of it.
  struct Part {
    Register queue = kNoRegister;  // the first of its thread's parts, or a part further on towards it
    std::int32_t rank = 0;
    Register across = kNoRegister;  // of a queue: the one that holds the same messages at the other end
  };

  Register& end_on(std::int32_t rank, std::int32_t message) {
    const bool sends = flat_.messages[index(message)].from_rank == rank;
    return sends ? ends_[index(message)].sender : ends_[index(message)].receiver;
  }

  /// Every thread is a queue. What is eager stands beside the receiver's queue, and counts as of it where
  /// something behind it waits.
  void thread_ends() {
    for (std::size_t id = 0; id < flat_.messages.size(); ++id) {
      const FlatMessage& message = flat_.messages[id];
      if (message.recv == kNone) continue;
      hand_on(message.from_rank, ends_[id].sender, message.next_at_sender);
      if (message.eager) {
        some_eager_ = true;
      } else {
        hand_on(message.to_rank, ends_[id].receiver, message.next_at_receiver);
      }
    }
    for (Part& part : parts_) part.queue = first_part(part.queue);
    for (std::size_t id = 0; some_eager_ && id < flat_.messages.size(); ++id) {
      const FlatMessage& message = flat_.messages[id];
      if (message.recv != kNone && message.eager && message.next_at_receiver != kNone)
        ends_[id].receiver = end_on(message.to_rank, message.next_at_receiver);
    }
  }

  /// A message's end is of a thread that is known, or opens one; the message behind it is of the same.
  void hand_on(std::int32_t rank, Register& end, std::int32_t behind) {
    if (end == kNoRegister) {
      end = static_cast<Register>(parts_.size());
      parts_.push_back({.queue = end, .rank = rank});
    }
    if (behind == kNone) return;
    Register& next = end_on(rank, behind);
    if (next == kNoRegister) {
      next = end;
    } else {
      parts_[first_part(next)].queue = first_part(end);
    }
  }

  Register first_part(Register part) {
    while (parts_[part].queue != part) part = parts_[part].queue = parts_[parts_[part].queue].queue;
    return part;
  }

  /// Two queues that hold the same messages are one.
  void pair_ends() {
    for (const QueueEnds& ends : ends_) {
      if (ends.sender == kNoRegister || ends.receiver == kNoRegister) continue;
      note(parts_[ends.sender].queue, parts_[ends.receiver].queue);
      note(parts_[ends.receiver].queue, parts_[ends.sender].queue);
    }
    // Nothing waits behind some eager messages at the receiver, so no thread tells their queue there: it is
    // the same as the others' if it is of the same rank.
    for (std::size_t id = 0; some_eager_ && id < ends_.size(); ++id) {
      if (ends_[id].sender == kNoRegister || ends_[id].receiver != kNoRegister) continue;
      Register& across = parts_[parts_[ends_[id].sender].queue].across;
      if (across < kSeveral && parts_[across].rank != flat_.messages[id].to_rank) across = kSeveral;
    }
    for (Part& part : parts_) {
      const Register across = parts_[part.queue].across;
      const bool equal = across < kSeveral && parts_[across].across == part.queue;
      if (equal) part.queue = std::min(part.queue, across);
    }
  }

  void note(Register queue, Register across) {
    Register& known = parts_[queue].across;
    known = known == kNoRegister || known == across ? across : kSeveral;
  }

  const FlatProgram& flat_;
  std::vector<QueueEnds> ends_;  // by message: parts of threads
  std::vector<Part> parts_;
  bool some_eager_ = false;
};

}  // namespace

QueueRegisters queue_registers(const FlatProgram& flat, Register first) {
  return Queues(flat).registers(first);
}

}  // namespace penstock
