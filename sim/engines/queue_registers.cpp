// A flat program holds its queues as threads: each message names the one behind it at either end. The
// messages of one thread are one queue.
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
  Queues(const FlatProgram& flat, Register first) : flat_(flat), ends_(flat.messages.size()) {
    thread_ends();
    join_equal_queues();
    number_from(first);
  }

  QueueRegisters registers() && { return {.ends = std::move(ends_), .count = count_}; }

 private:
  static constexpr Register kSeveral = kNoRegister - 1;

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
      if (ends_[id].sender == kNoRegister) follow(message.from_rank, static_cast<std::int32_t>(id));
      if (!message.eager && ends_[id].receiver == kNoRegister)
        follow(message.to_rank, static_cast<std::int32_t>(id));
    }
    for (std::size_t id = 0; id < flat_.messages.size(); ++id) {
      const FlatMessage& message = flat_.messages[id];
      if (message.recv != kNone && message.eager && message.next_at_receiver != kNone)
        ends_[id].receiver = end_on(message.to_rank, message.next_at_receiver);
    }
  }

  /// Numbers a thread from one of its messages on; joins it to the part that is numbered already.
  void follow(std::int32_t rank, std::int32_t message) {
    std::vector<std::int32_t> thread;
    Register queue = kNoRegister;
    for (std::int32_t id = message; id != kNone;) {
      if (end_on(rank, id) != kNoRegister) {
        queue = end_on(rank, id);
        break;
      }
      thread.push_back(id);
      const FlatMessage& here = flat_.messages[index(id)];
      id = here.from_rank == rank ? here.next_at_sender : here.next_at_receiver;
    }
    if (queue == kNoRegister) {
      queue = count_++;
      rank_of_.push_back(rank);
    }
    for (const std::int32_t id : thread) end_on(rank, id) = queue;
  }

  /// Two queues that hold the same messages are one.
  void join_equal_queues() {
    std::vector<Register> other(count_, kNoRegister);
    const auto note = [&](Register queue, Register across) {
      Register& known = other[queue];
      known = known == kNoRegister || known == across ? across : kSeveral;
    };
    for (const QueueEnds& ends : ends_) {
      if (ends.sender == kNoRegister || ends.receiver == kNoRegister) continue;
      note(ends.sender, ends.receiver);
      note(ends.receiver, ends.sender);
    }
    // Nothing waits behind some eager messages at the receiver, so no thread tells their queue there: it is
    // the same as the others' if it is of the same rank.
    for (std::size_t id = 0; id < ends_.size(); ++id) {
      if (ends_[id].sender == kNoRegister || ends_[id].receiver != kNoRegister) continue;
      Register& across = other[ends_[id].sender];
      if (across < kSeveral && rank_of_[across] != flat_.messages[id].to_rank) across = kSeveral;
    }
    for (QueueEnds& ends : ends_) {
      if (ends.sender == kNoRegister) continue;
      const Register across = other[ends.sender];
      const bool equal = across < kSeveral && other[across] == ends.sender;
      if (!equal) continue;
      ends.sender = std::min(ends.sender, across);
      if (ends.receiver != kNoRegister) ends.receiver = ends.sender;
    }
  }

  void number_from(Register first) {
    std::vector<Register> number(count_, kNoRegister);
    Register next = first;
    const auto renumber = [&](Register& queue) {
      if (queue == kNoRegister) return;
      if (number[queue] == kNoRegister) number[queue] = next++;
      queue = number[queue];
    };
    for (QueueEnds& ends : ends_) {
      renumber(ends.sender);
      renumber(ends.receiver);
    }
    count_ = next - first;
  }

  const FlatProgram& flat_;
  std::vector<QueueEnds> ends_;        // by message
  std::vector<std::int32_t> rank_of_;  // by queue
  Register count_ = 0;
};

}  // namespace

QueueRegisters queue_registers(const FlatProgram& flat, Register first) {
  return Queues(flat, first).registers();
}

}  // namespace penstock
