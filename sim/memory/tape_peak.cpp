// All that changes what a rank holds, in order of time:
//
//   start of an action    + what it charges                     end    - what it releases, - messages it took
//   in end of a producer     + send buffer                     arrival    - that buffer start of a transfer
//   + receive buffer
//
// At one instant releases of what was charged before come first, then all else in the order of the list
// (report/timeline/holdings.hpp). Actions take time, so only what a message charges and releases at one
// instant is such: its send buffer, where it takes none.

#include "sim/memory/tape_peak.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/action_ways.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/tape.hpp"
#include "sim/engines/turn_tape.hpp"
#include "sim/memory/list_holdings.hpp"

namespace penstock {
namespace {

/// What a rank holds changes by so much.
struct AmountChange {
  Ns time_ns = 0;
  std::int64_t place =
      0;  ///< at one instant: 0 for what was charged before, else the place in the list, from 1
  Bytes bytes = 0;

  friend bool operator<(const AmountChange& a, const AmountChange& b) {
    return std::tie(a.time_ns, a.place) < std::tie(b.time_ns, b.place);
  }
};

/// The changes of one rank, and how far its list has been followed.
struct RankChanges {
  std::vector<AmountChange> changes{};
  std::size_t next = 0;     ///< of its list
  std::int64_t places = 0;  ///< so far, messages among them
};

class TapeChanges {
 public:
  TapeChanges(const Experiment& experiment, const TurnTape& turns, const TapeCosts& costs)
      : program_(experiment.program),
        tape_(turns.tape),
        times_(instruction_times(turns.tape, costs)),
        holdings_(experiment.costs),
        ways_(experiment.program),
        ranks_(experiment.program.ranks.size()) {
    for (const TransferClass& transfer : tape_.transfers)
      bytes_of_transfer_.push_back(transfer_bytes(experiment.costs, ways_.edges(), transfer.send));
    for (const EdgeCost& edge : experiment.costs.edges)
      bytes_of_way_.insert(bytes_of_way_.end(), {edge.activation, edge.gradient});
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      ranks_[rank].changes.reserve(5 * program_.ranks[rank].size());
  }

  /// By rank; nothing where some action is unknown.
  std::optional<std::vector<RankChanges>> all() && {
    const bool known = std::visit([this](const auto& code) { return follow(code); }, tape_.code);
    return known ? std::optional(std::move(ranks_)) : std::nullopt;
  }

 private:
  template <class Code>
  bool follow(const Code& code) {
    for (std::size_t i = 0; i < code.size(); ++i) {
      const Origin& origin = tape_.origins[i];
      if (origin.position != -1 && !compute(static_cast<std::int32_t>(code[i].a), times_[i])) return false;
      if (origin.message != -1) send(index(tape_.links[code[i].link].transfer), times_[i]);
    }
    return true;
  }

  bool compute(std::int32_t rank, const InstructionTimes& at) {
    RankChanges& here = ranks_[index(rank)];
    const Action& action = program_.ranks[index(rank)][here.next++];
    const std::optional<ActionHolding> holding = holdings_.next(action);
    if (!holding) return false;
    const Bytes at_start = holding->charged + holding->transient;
    const Bytes at_end = holding->transient + holding->released + taken_in(rank, action);
    ++here.places;
    if (at_start != 0)
      here.changes.push_back({.time_ns = at.start_ns, .place = here.places, .bytes = at_start});
    if (at_end != 0) here.changes.push_back({.time_ns = at.end_ns, .bytes = -at_end});
    return true;
  }

  /// Receive buffers of what comes from other ranks.
  Bytes taken_in(std::int32_t rank, const Action& action) const {
    Bytes bytes = 0;
    for (const ActionWay& way : ways_.taken_by(action)) {
      if (program_.placement.rank_of(way.stage, action.microbatch) != rank)
        bytes += bytes_of_way_[way.number];
    }
    return bytes;
  }

  void send(std::size_t transfer, const InstructionTimes& at) {
    const Bytes bytes = bytes_of_transfer_[transfer];
    RankChanges& from = ranks_[index(tape_.transfers[transfer].from_rank)];
    RankChanges& to = ranks_[index(tape_.transfers[transfer].to_rank)];
    ++from.places;
    ++to.places;
    if (bytes == 0) return;
    const bool takes_time = at.arrival_ns > at.end_ns;
    from.changes.push_back({.time_ns = at.end_ns, .place = from.places, .bytes = bytes});
    from.changes.push_back(
        {.time_ns = at.arrival_ns, .place = takes_time ? 0 : from.places, .bytes = -bytes});
    to.changes.push_back({.time_ns = at.message_start_ns, .place = to.places, .bytes = bytes});
  }

  const Program& program_;
  const Tape& tape_;
  std::vector<InstructionTimes> times_;
  ListHoldings holdings_;
  ActionWays ways_;
  std::vector<Bytes> bytes_of_transfer_;  // by transfer class
  std::vector<Bytes> bytes_of_way_;
  std::vector<RankChanges> ranks_;
};

/// Of a rank that holds so much at the start.
Bytes peak_of(std::vector<AmountChange> changes, Bytes held) {
  std::ranges::stable_sort(changes, std::less<>{});
  Bytes peak = held;
  for (const AmountChange& change : changes) {
    held += change.bytes;
    peak = std::max(peak, held);
  }
  return peak;
}

}  // namespace

std::optional<std::vector<Bytes>> tape_peaks(const Experiment& experiment, const TurnTape& turns,
                                             const TapeCosts& costs) {
  if (!follows_from_lists(experiment)) return std::nullopt;
  auto changes = TapeChanges(experiment, turns, costs).all();
  if (!changes) return std::nullopt;
  std::vector<Bytes> peaks = held_at_start(experiment);
  for (std::size_t rank = 0; rank < peaks.size(); ++rank)
    peaks[rank] = peak_of(std::move((*changes)[rank].changes), peaks[rank]);
  return peaks;
}

}  // namespace penstock
