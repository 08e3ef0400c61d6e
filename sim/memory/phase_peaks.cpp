// Finds the peaks of ranks with message buffers, without sorting all changes of a rank's bytes by time. A
// rank's own actions divide the time into phases. At the start of a phase, the rank charges (+) or releases
// (-) bytes of its own. During the phase, only transfers change what it holds:
//
//     own action      |-- runs ------------|  - gap  |-- runs --
//     start of phase  + what it charges       - what it releases, + send buffer
//     in the phase    + receive buffers of transfers that start, - send buffers of messages that arrive
//
// The bytes at the start of a phase and all receive buffers of the phase are an upper bound of what the rank
// holds in the phase. The bound is exact unless a message arrives before a transfer starts. So the order
// inside a phase counts only in few phases: those with both, whose bound is above the rank's peak so far.
//
// This requires that all messages and all actions except STEP take time. tape_peak.cpp also knows the order
// of changes at one instant. Tests: RowRun in tests/sim/turn_run_test.cpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
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
#include "sim/memory/peaks.hpp"

namespace penstock {
namespace {

constexpr Ns kEndless = std::numeric_limits<Ns>::max();

/// The bytes of a message buffer, and the time at which it is charged or released.
struct BufferChange {
  Ns time_ns = 0;
  Bytes bytes = 0;
};

/// The changes of the buffers of messages from one rank to another, in the order of time. The last element is
/// later than all others.
using BufferChanges = std::vector<BufferChange>;

/// The times of one rank's actions, in the order of its list, and the changes by its messages.
struct RankTimes {
  std::vector<Ns> starts;
  std::vector<Ns> ends;
  std::vector<BufferChanges> received;  ///< starts of transfers to the rank; one element for each sender
  std::vector<BufferChanges> arrived;   ///< arrivals of the rank's messages; one element for each receiver
};

/// Collects the times of each rank in one pass over the tape.
class CollectedTimes {
 public:
  CollectedTimes(const Program& program, const CostTable& costs, const TurnTape& turns)
      : tape_(turns.tape), ranks_(program.ranks.size()) {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      ranks_[rank].starts.reserve(program.ranks[rank].size() + 1);
      ranks_[rank].ends.reserve(program.ranks[rank].size());
    }
    const EdgeNumbers edges(program);
    std::map<std::pair<std::int32_t, std::int32_t>, Channel> of_pair;
    for (const TransferClass& transfer : tape_.transfers) {
      const auto [known, fresh] = of_pair.try_emplace({transfer.from_rank, transfer.to_rank});
      RankTimes& from = ranks_[index(transfer.from_rank)];
      RankTimes& to = ranks_[index(transfer.to_rank)];
      if (fresh) {
        known->second = {.arrived = from.arrived.size(), .received = to.received.size()};
        from.arrived.emplace_back();
        to.received.emplace_back();
      }
      channels_.push_back(known->second);
      channels_.back().bytes = transfer_bytes(costs, edges, transfer.send);
    }
  }

  /// Returns the times of all ranks. Returns nothing if a message does not start at the end of an action.
  std::optional<std::vector<RankTimes>> all(const TapeCosts& priced) && {
    const bool is_known = std::visit([&](const auto& code) { return follow(code, priced); }, tape_.code);
    if (!is_known) return std::nullopt;
    for (RankTimes& rank : ranks_) {
      rank.starts.push_back(kEndless);
      for (BufferChanges& changes : rank.received) finish(changes);
      for (BufferChanges& changes : rank.arrived) finish(changes);
    }
    return std::move(ranks_);
  }

 private:
  /// The indices of the changes of a transfer class in RankTimes, and the bytes of a message.
  struct Channel {
    std::size_t arrived = 0;
    std::size_t received = 0;
    Bytes bytes = 0;
  };

  template <class Code>
  bool follow(const Code& code, const TapeCosts& priced) {
    bool is_known = true;
    for_each_instruction(tape_, priced, [&](std::size_t number, const InstructionTimes& at) {
      const auto& step = code[number];
      const Origin& origin = tape_.origins[number];
      if (origin.position != -1) {
        // A compute instruction raises the clock of its rank, and the number of this register is the rank.
        RankTimes& rank = ranks_[step.a];
        rank.starts.push_back(at.start_ns);
        rank.ends.push_back(at.end_ns);
      }
      if (origin.message == -1) return;
      if (origin.position == -1) {
        is_known = false;
        return;
      }
      const auto number_of_transfer = index(tape_.links[step.link].transfer);
      const TransferClass& transfer = tape_.transfers[number_of_transfer];
      const Channel& channel = channels_[number_of_transfer];
      if (channel.bytes == 0) return;
      ranks_[index(transfer.from_rank)].arrived[channel.arrived].push_back(
          {.time_ns = at.arrival_ns, .bytes = channel.bytes});
      ranks_[index(transfer.to_rank)].received[channel.received].push_back(
          {.time_ns = at.message_start_ns, .bytes = channel.bytes});
    });
    return is_known;
  }

  static void finish(BufferChanges& changes) {
    // Messages between two ranks usually start and arrive in order, but with some channel models they may
    // not.
    if (!std::ranges::is_sorted(changes, {}, &BufferChange::time_ns))
      std::ranges::sort(changes, {}, &BufferChange::time_ns);
    changes.push_back({.time_ns = kEndless});
  }

  const Tape& tape_;
  std::vector<RankTimes> ranks_;
  std::vector<Channel> channels_;  // index: transfer class
};

/// The bytes of messages that each kind of action of a stage receives and sends.
class MessageBytes {
 public:
  MessageBytes(const Program& program, const CostTable& costs)
      : of_kinds_(program.placement.stages.size() * kActionKindCount) {
    const ActionWays ways(program);
    std::vector<Bytes> bytes_of_way;
    for (const EdgeCost& edge : costs.edges)
      bytes_of_way.insert(bytes_of_way.end(), {edge.activation, edge.gradient});
    for (std::size_t place = 0; place < of_kinds_.size(); ++place) {
      const Action action{.kind = static_cast<ActionKind>(place % kActionKindCount),
                          .stage = static_cast<std::int32_t>(place / kActionKindCount),
                          .microbatch = 0};
      const std::int32_t own = program.placement.rank_of(action.stage, 0);
      const auto sum = [&](ActionWays::Ways of_action) {
        Bytes bytes = 0;
        for (const ActionWay& way : of_action) bytes += way.rank == own ? 0 : bytes_of_way[way.number];
        return bytes;
      };
      of_kinds_[place] = {.received = sum(ways.taken_by(action)), .sent = sum(ways.given_by(action))};
    }
  }

  struct OfKind {
    Bytes received = 0;
    Bytes sent = 0;
  };
  const OfKind& of(const Action& action) const {
    return of_kinds_[index(action.stage) * kActionKindCount + static_cast<std::size_t>(action.kind)];
  }

 private:
  std::vector<OfKind> of_kinds_;
};

/// Follows the bytes of one rank from phase to phase.
class RankPhases {
 public:
  RankPhases(const RankTimes& times, Bytes held) : held_(held), peak_(held) {
    for (const BufferChanges& changes : times.received) received_.push_back(changes.data());
    for (const BufferChanges& changes : times.arrived) arrived_.push_back(changes.data());
  }

  /// Continues with the phase from `begin` to `end`, which begins with a release and then a charge.
  void phase(Ns begin, Ns end, Bytes released, Bytes charged) {
    held_ -= released;
    charged_ += charged;
    // At one instant, all releases come before all charges. So the charges of a phase without length wait for
    // the releases of the next one. An example is a STEP that takes no time.
    if (begin == end) return;
    for (const BufferChange*& next : arrived_) {
      for (; next->time_ns <= begin; ++next) held_ -= next->bytes;
    }
    held_ += std::exchange(charged_, 0);
    Bytes most = held_;
    for (const BufferChange* next : received_) {
      for (; next->time_ns < end; ++next) most += next->bytes;
    }
    if (most > peak_) peak_ = std::max(peak_, has_arrival_before(end) ? exact(end) : most);
    for (const BufferChange*& next : received_) next = first_from(next, end);
    held_ = most;
  }

  /// Returns the highest number of bytes so far.
  Bytes peak() const { return peak_; }

 private:
  /// Returns the first change at `time_ns` or later.
  static const BufferChange* first_from(const BufferChange* next, Ns time_ns) {
    while (next->time_ns < time_ns) ++next;
    return next;
  }
  bool has_arrival_before(Ns end) const {
    return std::ranges::any_of(arrived_, [&](const BufferChange* next) { return next->time_ns < end; });
  }

  /// Returns the highest number of bytes until `end`, by the times of all changes.
  Bytes exact(Ns end) {
    changes_.clear();
    for (const BufferChange* next : arrived_) {
      for (; next->time_ns < end; ++next)
        changes_.push_back({.time_ns = next->time_ns, .bytes = -next->bytes});
    }
    for (const BufferChange* next : received_) {
      for (; next->time_ns < end; ++next) changes_.push_back(*next);
    }
    // Arrivals come first in the list, and the sort keeps them first if times are equal.
    std::ranges::stable_sort(changes_, {}, &BufferChange::time_ns);
    Bytes held = held_;
    Bytes most = held;
    for (const BufferChange& change : changes_) {
      held += change.bytes;
      most = std::max(most, held);
    }
    return most;
  }

  std::vector<const BufferChange*> received_;  // the next change of each sender
  std::vector<const BufferChange*> arrived_;   // the next change of each receiver
  std::vector<BufferChange> changes_;          // those of one phase
  Bytes held_;
  Bytes charged_ = 0;  // bytes that are charged at the start of the next phase with a length
  Bytes peak_;
};

/// Returns true if the phases of all ranks are known: all messages and all actions except STEP take time, and
/// each stage is on one rank.
bool has_phases(const Program& program, const CostTable& costs, const TurnTape& turns,
                const TapeCosts& priced) {
  if (!follows_from_lists(program, costs)) return false;
  const bool is_single = std::ranges::all_of(
      program.placement.stages, [](const StagePlacement& stage) { return stage.ranks.size() == 1; });
  if (!is_single) return false;
  for (std::size_t link = 0; link < turns.tape.links.size(); ++link) {
    const bool is_message = turns.tape.links[link].transfer != LinkClass::kNoTransfer;
    if (is_message && priced.links[link].hold_ns + priced.links[link].latency_ns == 0) return false;
  }
  return true;
}

}  // namespace

std::optional<std::vector<Bytes>> phase_peaks(const Program& program, const CostTable& costs,
                                              const TurnTape& turns, const TapeCosts& priced) {
  if (!has_phases(program, costs, turns, priced)) return std::nullopt;
  const auto times = CollectedTimes(program, costs, turns).all(priced);
  if (!times) return std::nullopt;
  const MessageBytes messages(program, costs);
  std::vector<Bytes> peaks = held_at_start(program, costs);
  ListHoldings holdings(costs);
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    const RankTimes& of_rank = (*times)[rank];
    RankPhases phases(of_rank, peaks[rank]);
    phases.phase(std::numeric_limits<Ns>::min(), of_rank.starts.front(), 0, 0);
    for (std::size_t i = 0; i < program.ranks[rank].size(); ++i) {
      const Action& action = program.ranks[rank][i];
      const std::optional<ActionHolding> holding = holdings.next(action);
      if (!holding) return std::nullopt;
      const MessageBytes::OfKind& of_kind = messages.of(action);
      phases.phase(of_rank.starts[i], of_rank.ends[i], 0, holding->charged + holding->transient);
      phases.phase(of_rank.ends[i], of_rank.starts[i + 1],
                   holding->transient + holding->released + of_kind.received, of_kind.sent);
    }
    peaks[rank] = phases.peak();
  }
  return peaks;
}

}  // namespace penstock
