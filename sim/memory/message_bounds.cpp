// Finds an upper bound of the number of message buffers that exist at once between each pair of ranks. A send
// buffer exists from the end of the message's producer to the arrival. A receive buffer exists from the start
// of the transfer to the end of the consumer. At each start, one buffer is added, and buffers that have ended
// are subtracted:
//
//     starts      0   1   2       3        ->  1  2  2  2  at once, so never more than 2
//     ends           0  1     2 3
//
// Most messages start and end in order of time. If some do not, a buffer that has ended may still be counted,
// so the bound is never too small. tape_peak.cpp computes exact peaks. It uses this bound to skip ranks that
// cannot have the highest peak. Tests: tests/sim/turn_run_test.cpp.

#include "sim/memory/peaks.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/turn_state.hpp"
#include "sim/engines/compile.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {
namespace {

/// Counts the send buffers, or the receive buffers, of the transfers from one rank to another.
class BufferCount {
 public:
  void start(Ns time_ns) {
    is_ordered_ &= time_ns >= latest_ns_;
    latest_ns_ = time_ns;
    // Ends are passed in the order of their entries. If an entry has not ended, later entries remain counted
    // even if they have ended, so the bound may only be too large.
    while (over_ < ends_.size() && ends_[over_] <= time_ns) ++over_;
    ++started_;
    most_ = std::max(most_, started_ - over_);
  }
  void end(Ns time_ns) { ends_.push_back(time_ns); }
  /// Returns an upper bound of the number of buffers that exist at once. If the starts are not in order of
  /// time, it is the number of all buffers.
  Bytes most() const { return static_cast<Bytes>(is_ordered_ ? most_ : started_); }

 private:
  std::vector<Ns> ends_;
  Ns latest_ns_ = 0;
  bool is_ordered_ = true;
  std::size_t over_ = 0;
  std::size_t started_ = 0;
  std::size_t most_ = 0;
};

/// The buffers of the messages from one rank to another.
struct PairBuffers {
  std::int32_t from_rank = 0;
  std::int32_t to_rank = 0;
  Bytes largest = 0;
  BufferCount sends{};
  BufferCount receives{};
};

/// Counts the buffers of every pair of ranks that exchange messages. It reads the messages in the order of
/// the tape.
class MessageBuffers {
 public:
  MessageBuffers(const Program& program, const CostTable& costs, const TurnTape& turns,
                 const std::vector<InstructionTimes>& times)
      : program_(program), tape_(turns.tape), times_(times), ways_(program) {
    for (const TransferClass& transfer : tape_.transfers) {
      const auto [known, fresh] = places_.try_emplace({transfer.from_rank, transfer.to_rank}, pairs_.size());
      if (fresh) pairs_.push_back({.from_rank = transfer.from_rank, .to_rank = transfer.to_rank});
      Bytes& largest = pairs_[known->second].largest;
      largest = std::max(largest, transfer_bytes(costs, ways_.edges(), transfer.send));
      pair_of_transfer_.push_back(known->second);
    }
  }

  std::vector<Bytes> most_by_rank() && {
    std::visit([this](const auto& code) { follow(code); }, tape_.code);
    std::vector<Bytes> most(program_.ranks.size(), 0);
    for (const PairBuffers& pair : pairs_) {
      // The bound adds up the largest numbers of all pairs, as if they occurred at the same time. It assumes
      // that every message of a pair has the size of the largest one.
      most[index(pair.from_rank)] += pair.largest * pair.sends.most();
      most[index(pair.to_rank)] += pair.largest * pair.receives.most();
    }
    return most;
  }

 private:
  template <class Code>
  void follow(const Code& code) {
    std::vector<std::size_t> next(program_.ranks.size(), 0);
    for (std::size_t i = 0; i < code.size(); ++i) {
      const Origin& origin = tape_.origins[i];
      const InstructionTimes& at = times_[i];
      if (origin.position != -1) {
        // A compute instruction raises the clock of its rank, and the number of this register is the rank.
        const auto rank = static_cast<std::size_t>(code[i].a);
        // The tape has each rank's actions in the order of the rank's list, so a counter is enough to find
        // the action.
        take_in(rank, program_.ranks[rank][next[rank]++], at.end_ns);
      }
      if (origin.message == -1) continue;
      PairBuffers& pair = pairs_[pair_of_transfer_[index(tape_.links[code[i].link].transfer)]];
      pair.sends.start(at.end_ns);
      pair.sends.end(at.arrival_ns);
      pair.receives.start(at.message_start_ns);
    }
  }

  void take_in(std::size_t rank, const Action& action, Ns end_ns) {
    for (const ActionWay& way : ways_.taken_by(action)) {
      const std::int32_t from = way.rank_of(program_.placement, action.microbatch);
      if (index(from) == rank) continue;
      pairs_[pair_of(from, static_cast<std::int32_t>(rank))].receives.end(end_ns);
    }
  }

  /// Returns the index of the pair. A linear search is enough, because a rank receives messages from few
  /// other ranks.
  std::size_t pair_of(std::int32_t from, std::int32_t to) {
    if (by_receiver_.empty()) {
      by_receiver_.resize(program_.ranks.size());
      for (std::size_t pair = 0; pair < pairs_.size(); ++pair)
        by_receiver_[index(pairs_[pair].to_rank)].push_back(pair);
    }
    return *std::ranges::find(by_receiver_[index(to)], from,
                              [this](std::size_t pair) { return pairs_[pair].from_rank; });
  }

  const Program& program_;
  const Tape& tape_;
  const std::vector<InstructionTimes>& times_;
  ActionWays ways_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> places_;
  std::vector<PairBuffers> pairs_;
  std::vector<std::size_t> pair_of_transfer_;
  std::vector<std::vector<std::size_t>> by_receiver_;  // for each receiver, the indices of its pairs
};

}  // namespace

std::vector<Bytes> most_of_messages(const Program& program, const CostTable& costs, const TurnTape& turns,
                                    const std::vector<InstructionTimes>& times) {
  return MessageBuffers(program, costs, turns, times).most_by_rank();
}

}  // namespace penstock
