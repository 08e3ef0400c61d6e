// Placement rounds place the actions and messages of each rank in the order of its lowered list, and the tape
// keeps this order. So one pass over the tape finds the spans of every rank in order, and writes each to its
// place:
//
//   tape     0F0 with its message   1F0
//   rank 0   0F0 0SEND_F0           .
//   rank 1   1RECV_F0               1F0
//
// The k-th compute instruction of a rank is the k-th group of its list. Messages are numbered in their order
// on the tape.

#include "sim/engines/turn_timeline.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/tape.hpp"
#include "sim/engines/turn_tape.hpp"

namespace penstock {
namespace {

/// Writes the spans while the tape is timed.
class TurnSpans {
 public:
  TurnSpans(const Program& program, const TurnTape& turns) : program_(program), turns_(turns) {
    timeline_.rank_count = program.rank_count();
    // The spans of each rank are contiguous, so the number of spans of each rank must be known first.
    std::vector<std::size_t> spans = messages_by_rank();
    std::size_t all = 0;
    for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
      end_.push_back(all);
      all += spans[rank] + program.ranks[rank].size();
    }
    timeline_.spans.resize(all);
    next_.resize(program.ranks.size(), 0);
  }

  void add_group(std::int32_t rank, const InstructionTimes& at) {
    const std::vector<Action>& list = program_.ranks[index(rank)];
    std::size_t& next = next_[index(rank)];
    for (const std::size_t end = group_end(list, next); next < end; ++next)
      add(rank, list[next], at.start_ns, at.end_ns);
  }

  void add_message(const LinkClass& link, const InstructionTimes& at) {
    const TransferClass& transfer = turns_.tape.transfers[index(link.transfer)];
    Action send = transfer.send;
    send.microbatch = turns_.units[message_++];
    add(transfer.from_rank, send, at.message_start_ns, at.arrival_ns);
    add(transfer.to_rank, recv_of(message_of(send)), at.message_start_ns, at.arrival_ns);
  }

  Timeline timeline() && { return std::move(timeline_); }

 private:
  /// Returns the number of SENDs and RECVs of each rank.
  std::vector<std::size_t> messages_by_rank() const {
    std::vector<std::size_t> messages(program_.ranks.size(), 0);
    const auto count = [&](const auto& code) {
      for (const auto& step : code) {
        const std::int32_t number = turns_.tape.links[step.link].transfer;
        if (number == LinkClass::kNoTransfer) continue;
        const TransferClass& transfer = turns_.tape.transfers[index(number)];
        ++messages[index(transfer.from_rank)];
        ++messages[index(transfer.to_rank)];
      }
    };
    std::visit(count, turns_.tape.code);
    return messages;
  }

  void add(std::int32_t rank, const Action& action, Ns start_ns, Ns end_ns) {
    timeline_.spans[end_[index(rank)]++] = {.rank = rank,
                                            .action = action,
                                            .replica = program_.placement.replica_on(action.stage, rank),
                                            .start_ns = start_ns,
                                            .end_ns = end_ns};
    timeline_.makespan_ns = std::max(timeline_.makespan_ns, end_ns);
  }

  const Program& program_;
  const TurnTape& turns_;
  Timeline timeline_;
  std::vector<std::size_t> end_;   // for each rank the end of its spans written so far
  std::vector<std::size_t> next_;  // for each rank the next action of its compute list
  std::size_t message_ = 0;
};

}  // namespace

Timeline timeline_of_turns(const Program& program, const TurnTape& turns, const TapeCosts& costs) {
  TurnSpans spans(program, turns);
  std::visit(
      [&](const auto& code) {
        for_each_instruction(turns.tape, costs, [&](std::size_t number, const InstructionTimes& at) {
          const auto& step = code[number];
          // A compute instruction never has the class kNoTime, even if it takes no time.
          if (step.duration != kNoTime) spans.add_group(static_cast<std::int32_t>(step.a), at);
          const LinkClass& link = turns.tape.links[step.link];
          if (link.transfer != LinkClass::kNoTransfer) spans.add_message(link, at);
        });
      },
      turns.tape.code);
  return std::move(spans).timeline();
}

}  // namespace penstock
