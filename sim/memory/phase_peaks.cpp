// Finds the peak memory of ranks with message buffers. Unlike tape_peak.cpp, it does not sort all changes
// of a rank's bytes by time. A rank's own actions divide the time into phases. At the start of a phase,
// the rank charges (+) or releases (-) bytes of its own. During the phase, only transfers change the bytes
// that it holds:
//
//     own action      |-- runs ------------|  - gap  |-- runs --
//     start of phase  + what it charges       - what it releases, + send buffer
//     in the phase    + receive buffers of transfers that start, - send buffers of messages that arrive
//
// The bytes at the start of a phase and all receive buffers of the phase are an upper bound of what the rank
// holds in the phase. The bound is exact unless a message arrives before a transfer starts. So the order
// inside a phase is computed only in a few phases: those with both kinds of events whose bound is above the
// rank's peak so far.
//
// This requires that all messages and all actions except STEP take time. tape_peak.cpp also knows the order
// of changes at one instant. Tests: RowRun in tests/sim/turn_run_test.cpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/turn_state.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/tape.hpp"
#include "sim/engines/tape_writer.hpp"
#include "sim/memory/memory.hpp"

namespace penstock {
namespace {

/// A time that is later than all others. The duration of a message can be added to it without exceeding 64
/// bits.
constexpr Ns kEndless = std::numeric_limits<Ns>::max() / 2;

/// The messages from one rank to another that have the same bytes and the same travel time.
struct MessageSeries {
  Bytes bytes = 0;
  Ns travel_ns = 0;
  /// The start of each transfer, in the order of time. The last element is kEndless.
  std::vector<Ns> starts{};
};

/// The start and the end of one action, in ns.
struct StartAndEnd {
  Ns start = 0;
  Ns end = 0;
};

/// The times of one rank's actions, in the order of its list, and the messages of the rank.
struct RankTimes {
  std::vector<StartAndEnd> actions{};   ///< times of the actions, followed by one at kEndless
  std::vector<std::size_t> received{};  ///< indices of the series of messages that the rank receives
  std::vector<std::size_t> sent{};
};

struct ProgramMoments {
  std::vector<RankTimes> ranks;
  std::vector<MessageSeries> streams;
};

/// A collector of the times of each rank. It makes one pass over the tape.
class CollectedTimes {
 public:
  CollectedTimes(const Program& program, const CostTable& costs, const TurnTape& turns,
                 const TapeCosts& priced)
      : tape_(turns.tape),
        priced_(priced),
        moments_{.ranks = std::vector<RankTimes>(program.ranks.size()), .streams = {}},
        stream_of_link_(tape_.links.size(), kNoStream) {
    for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
      moments_.ranks[rank].actions.reserve(program.ranks[rank].size() + 1);
    }
    const EdgeNumbers edges(program);
    std::map<std::tuple<std::int32_t, std::int32_t, Bytes, Ns>, std::size_t> known;
    for (std::size_t link = 0; link < tape_.links.size(); ++link) {
      const std::int32_t number = tape_.links[link].transfer;
      if (number == LinkClass::kNoTransfer) continue;
      const TransferClass& transfer = tape_.transfers[index(number)];
      const Bytes bytes = transfer_bytes(costs, edges, transfer.send);
      if (bytes == 0) continue;
      const Ns travel_ns = priced.links[link].hold_ns + priced.links[link].latency_ns;
      const auto [stream, fresh] = known.try_emplace({transfer.from_rank, transfer.to_rank, bytes, travel_ns},
                                                     moments_.streams.size());
      if (fresh) {
        moments_.ranks[index(transfer.from_rank)].sent.push_back(stream->second);
        moments_.ranks[index(transfer.to_rank)].received.push_back(stream->second);
        moments_.streams.push_back({.bytes = bytes, .travel_ns = travel_ns});
      }
      stream_of_link_[link] = stream->second;
      // A link class usually has one message for each microbatch.
      std::vector<Ns>& starts = moments_.streams[stream->second].starts;
      starts.reserve(std::max<std::size_t>(starts.capacity(), 1) + index(program.microbatches));
    }
  }

  /// Returns the times of all ranks. Returns nothing if a message does not start at the end of an action.
  std::optional<ProgramMoments> all() && {
    const bool is_known = std::visit([&](const auto& code) { return follow(code); }, tape_.code);
    if (!is_known) return std::nullopt;
    for (RankTimes& rank : moments_.ranks) rank.actions.push_back({.start = kEndless, .end = kEndless});
    for (MessageSeries& stream : moments_.streams) {
      // Messages between two ranks usually start in order, but with some channel models they may not.
      if (!std::ranges::is_sorted(stream.starts)) std::ranges::sort(stream.starts);
      stream.starts.push_back(kEndless);
    }
    return std::move(moments_);
  }

 private:
  static constexpr std::size_t kNoStream = static_cast<std::size_t>(-1);

  template <class Code>
  bool follow(const Code& code) {
    // A compute action never has the duration class kNoTime, even if it takes 0 ns. A message of an
    // instruction with kNoTime is therefore not sent at the end of a compute action.
    const bool is_known = std::ranges::all_of(code, [&](const auto& step) {
      return step.duration != kNoTime || tape_.links[step.link].transfer == LinkClass::kNoTransfer;
    });
    if (!is_known) return false;
    run_timed(tape_, priced_, [&](std::size_t number, const InstructionTimes& at) {
      const auto& step = code[number];
      if (step.duration != kNoTime) {
        // A compute instruction raises the clock of its rank, and the number of this register is the rank.
        moments_.ranks[step.a].actions.push_back({.start = at.start_ns, .end = at.end_ns});
      }
      const std::size_t stream = stream_of_link_[step.link];
      if (stream != kNoStream) moments_.streams[stream].starts.push_back(at.message_start_ns);
    });
    return true;
  }

  const Tape& tape_;
  const TapeCosts& priced_;
  ProgramMoments moments_;
  std::vector<std::size_t> stream_of_link_;  // series of messages of each link class; kNoStream for no bytes
};

/// The bytes of the messages that each kind of action on each stage receives and sends.
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

/// The memory of one rank, computed in phases. A phase lasts to the next release or charge by an action of
/// the rank.
class RankPhases {
 public:
  RankPhases(const ProgramMoments& moments, const RankTimes& times, Bytes held) : held_(held), peak_(held) {
    const auto cursor = [&](std::size_t stream, Ns after_ns) {
      const MessageSeries& of = moments.streams[stream];
      return Cursor{.next = of.starts.data(), .after_ns = after_ns, .bytes = of.bytes};
    };
    for (const std::size_t stream : times.received) received_.push_back(cursor(stream, 0));
    // A send buffer is released when its message arrives.
    for (const std::size_t stream : times.sent)
      arrived_.push_back(cursor(stream, moments.streams[stream].travel_ns));
  }

  /// Adds the phase from `begin` to `end`. At its begin, an action first releases `released` bytes and then
  /// charges `charged` bytes.
  void phase(Ns begin, Ns end, Bytes released, Bytes charged) {
    held_ -= released;
    charged_ += charged;
    // At one instant, all releases come before all charges. So the charges of a phase without length wait for
    // the releases of the next one. An example is a STEP that takes no time.
    if (begin == end) return;
    for (Cursor& cursor : arrived_) {
      for (; cursor.time_ns() <= begin; ++cursor.next) held_ -= cursor.bytes;
    }
    held_ += std::exchange(charged_, 0);
    Bytes most = held_;
    for (Cursor cursor : received_) {
      for (; cursor.time_ns() < end; ++cursor.next) most += cursor.bytes;
    }
    if (most > peak_) peak_ = std::max(peak_, has_arrival_before(end) ? exact(end) : most);
    for (Cursor& cursor : received_) {
      while (cursor.time_ns() < end) ++cursor.next;
    }
    held_ = most;
  }

  /// Returns the largest number of bytes that the rank has held so far.
  Bytes peak() const { return peak_; }

 private:
  /// The position of the next message in a series. Its buffer changes `after_ns` after the message starts.
  struct Cursor {
    const Ns* next = nullptr;
    Ns after_ns = 0;
    Bytes bytes = 0;

    Ns time_ns() const { return *next + after_ns; }
  };

  bool has_arrival_before(Ns end) const {
    return std::ranges::any_of(arrived_, [&](const Cursor& cursor) { return cursor.time_ns() < end; });
  }

  /// Returns the largest number of bytes that the rank holds until `end`. It uses the times of all changes.
  Bytes exact(Ns end) {
    changes_.clear();
    for (Cursor cursor : arrived_) {
      cursor.bytes = -cursor.bytes;
      changes_.push_back(cursor);
    }
    changes_.insert(changes_.end(), received_.begin(), received_.end());
    Bytes held = held_;
    Bytes most = held;
    while (true) {
      // The earliest change comes next. If times are equal, an arrival comes before a start.
      const auto next = std::ranges::min_element(changes_, {}, &Cursor::time_ns);
      if (next == changes_.end() || next->time_ns() >= end) break;
      held += next->bytes;
      most = std::max(most, held);
      ++next->next;
    }
    return most;
  }

  std::vector<Cursor> received_;  // next message of each sender
  std::vector<Cursor> arrived_;   // next message to each receiver that has not arrived
  std::vector<Cursor> changes_;   // next change of each stream in exact(); an arrival has negative bytes
  Bytes held_;
  Bytes charged_ = 0;  // bytes that are charged at the start of the next phase with a length
  Bytes peak_;
};

/// Returns true if this file can handle the program. All messages and all actions except STEP must take
/// time, and each stage must be on one rank.
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
  const auto moments = CollectedTimes(program, costs, turns, priced).all();
  if (!moments) return std::nullopt;
  const MessageBytes messages(program, costs);
  std::vector<Bytes> peaks = held_at_start(program, costs);
  ListHoldings holdings(costs);
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    const RankTimes& of_rank = moments->ranks[rank];
    RankPhases phases(*moments, of_rank, peaks[rank]);
    phases.phase(std::numeric_limits<Ns>::min(), of_rank.actions.front().start, 0, 0);
    for (std::size_t i = 0; i < program.ranks[rank].size(); ++i) {
      const Action& action = program.ranks[rank][i];
      const std::optional<ActionHolding> holding = holdings.next(action);
      if (!holding) return std::nullopt;
      const MessageBytes::OfKind& of_kind = messages.of(action);
      const StartAndEnd& at = of_rank.actions[i];
      phases.phase(at.start, at.end, 0, holding->charged + holding->transient);
      phases.phase(at.end, of_rank.actions[i + 1].start,
                   holding->transient + holding->released + of_kind.received, of_kind.sent);
    }
    peaks[rank] = phases.peak();
  }
  return peaks;
}

}  // namespace penstock
