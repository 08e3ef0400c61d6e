// Finds the peak memory of ranks that have message buffers. The following events add (+) or release (-) bytes
// of a rank:
//
//     start of an action    + what it charges    end        - what it releases, - messages it took in
//     end of a producer     + send buffer        arrival    - that buffer
//     start of a transfer   + receive buffer
//
// Events of one kind are already sorted by time. The starts and ends of actions come from the rank's own
// list. The events of messages come from each rank with which the rank exchanges messages. A merge of these
// streams gives the bytes that the rank holds over time.
//
// At one instant, releases of earlier charges come first, and then all other changes in the order of the list
// (report/timeline/spans.hpp). Only two amounts may be charged and released at the same instant: the send
// buffer of a message that takes no time, and the transient bytes of an action that takes no time. An example
// is an action of a stage without layers.
//
// phase_peaks.cpp is faster, but cannot order changes at one instant. memory.cpp handles all other programs.
// Tests: tests/sim/turn_run_test.cpp.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/turn_state.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/streamed_walk.hpp"
#include "sim/engines/tape.hpp"
#include "sim/memory/memory.hpp"

namespace penstock {
namespace {

/// A change of the bytes that a rank holds.
struct AmountChange {
  Ns time_ns = 0;
  std::int64_t place =
      /// The order of changes at one instant. It is 0 for the release of an earlier charge, and otherwise
      /// the position in the list, counted from 1.
      0;
  Bytes bytes = 0;

  friend bool operator<(const AmountChange& a, const AmountChange& b) {
    return std::tie(a.time_ns, a.place) < std::tie(b.time_ns, b.place);
  }
};

/// Changes that usually are sorted by time.
using ChangeStream = std::vector<AmountChange>;

/// The changes of one rank's memory, and how far the pass over the tape has come in the rank's list.
struct RankChanges {
  std::vector<ChangeStream> streams{
      1};                   ///< streams of changes; the first one has the changes by the rank's own actions
  std::size_t next = 0;     ///< index of the next action in the rank's list
  std::int64_t places = 0;  ///< number of actions and messages so far
};

/// The streams of changes to which a transfer adds its own changes, as indices.
struct TransferStreams {
  std::size_t arrivals = 0;  ///< stream of the sender
  std::size_t receives = 0;  ///< stream of the receiver
};

/// A collector of all changes in one pass over the tape. Each instruction adds changes to the streams of
/// its rank, and to those of its message's sender and receiver.
class TapeChanges {
 public:
  TapeChanges(const Program& program, const CostTable& costs, const TurnTape& turns,
              const std::vector<InstructionTimes>& times)
      : program_(program),
        tape_(turns.tape),
        times_(times),
        holdings_(costs),
        ways_(program),
        ranks_(program.ranks.size()) {
    for (const EdgeCost& edge : costs.edges)
      bytes_of_way_.insert(bytes_of_way_.end(), {edge.activation, edge.gradient});
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      ranks_[rank].streams.front().reserve(3 * program.ranks[rank].size());
    std::map<std::pair<std::int32_t, std::int32_t>, TransferStreams> of_pair;
    for (const TransferClass& transfer : tape_.transfers) {
      bytes_of_transfer_.push_back(transfer_bytes(costs, ways_.edges(), transfer.send));
      const auto [known, fresh] = of_pair.try_emplace({transfer.from_rank, transfer.to_rank});
      if (fresh) {
        known->second = {.arrivals = add_stream(transfer.from_rank),
                         .receives = add_stream(transfer.to_rank)};
      }
      streams_of_transfer_.push_back(known->second);
    }
  }

  /// Returns the changes of each rank, or nothing if ListHoldings does not support some action.
  std::optional<std::vector<RankChanges>> all() && {
    const bool known = std::visit([this](const auto& code) { return follow(code); }, tape_.code);
    return known ? std::optional(std::move(ranks_)) : std::nullopt;
  }

 private:
  std::size_t add_stream(std::int32_t rank) {
    ChangeStream& stream = ranks_[index(rank)].streams.emplace_back();
    stream.reserve(program_.ranks[index(rank)].size() / 2);
    return ranks_[index(rank)].streams.size() - 1;
  }

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
    // An action that takes no time first releases earlier charges, then charges its own bytes, and then
    // releases its transient bytes.
    if (at.start_ns == at.end_ns) {
      add_in_order(here.streams.front(), {.time_ns = at.end_ns, .bytes = holding->transient - at_end});
      here.streams.front().push_back({.time_ns = at.start_ns, .place = here.places, .bytes = at_start});
      here.streams.front().push_back(
          {.time_ns = at.end_ns, .place = here.places, .bytes = -holding->transient});
      return true;
    }
    if (at_start != 0)
      here.streams.front().push_back({.time_ns = at.start_ns, .place = here.places, .bytes = at_start});
    if (at_end != 0) here.streams.front().push_back({.time_ns = at.end_ns, .bytes = -at_end});
    return true;
  }

  /// Inserts a change that has the time of the stream's latest changes. Changes at this time stay in the
  /// order in which they must be counted.
  static void add_in_order(ChangeStream& stream, const AmountChange& change) {
    // The changes of this stream are in the order of one rank's clock, so only changes of the same time are
    // skipped.
    auto place = stream.end();
    while (place != stream.begin() && change < *std::prev(place)) --place;
    stream.insert(place, change);
  }

  /// Returns the bytes of the receive buffers that the action releases. These buffers hold its inputs from
  /// other ranks.
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
    const TransferStreams& streams = streams_of_transfer_[transfer];
    RankChanges& from = ranks_[index(tape_.transfers[transfer].from_rank)];
    RankChanges& to = ranks_[index(tape_.transfers[transfer].to_rank)];
    // SENDs and RECVs have positions even if they carry no bytes, as in the lowered list.
    ++from.places;
    ++to.places;
    if (bytes == 0) return;
    const bool takes_time = at.arrival_ns > at.end_ns;
    from.streams.front().push_back({.time_ns = at.end_ns, .place = from.places, .bytes = bytes});
    from.streams[streams.arrivals].push_back(
        {.time_ns = at.arrival_ns, .place = takes_time ? 0 : from.places, .bytes = -bytes});
    to.streams[streams.receives].push_back(
        {.time_ns = at.message_start_ns, .place = to.places, .bytes = bytes});
  }

  const Program& program_;
  const Tape& tape_;
  const std::vector<InstructionTimes>& times_;
  ListHoldings holdings_;
  ActionWays ways_;
  std::vector<Bytes> bytes_of_transfer_;  // bytes of each transfer class
  std::vector<TransferStreams> streams_of_transfer_;
  std::vector<Bytes> bytes_of_way_;
  std::vector<RankChanges> ranks_;
};

/// A merge of streams of changes, in the order of time.
class MergedStreams {
 public:
  explicit MergedStreams(std::span<ChangeStream> streams) {
    for (ChangeStream& stream : streams) {
      if (stream.empty()) continue;
      // Messages between two ranks usually arrive in order, but with some channel models they may not.
      if (!std::ranges::is_sorted(stream, std::less<>{})) std::ranges::stable_sort(stream, std::less<>{});
      left_.emplace_back(stream);
    }
  }

  /// Returns the next change of the merged streams, or null after the last one.
  const AmountChange* next() {
    if (left_.empty()) return nullptr;
    auto first = left_.begin();
    // A rank exchanges messages with few other ranks, so a linear search over the streams is as fast as a
    // heap.
    for (auto other = std::next(first); other != left_.end(); ++other) {
      if (other->front() < first->front()) first = other;
    }
    const AmountChange* change = &first->front();
    *first = first->subspan(1);
    if (first->empty()) left_.erase(first);
    return change;
  }

 private:
  std::vector<std::span<const AmountChange>> left_;
};

/// Returns the peak of a rank that holds `held` bytes at the start.
Bytes peak_of(std::span<ChangeStream> streams, Bytes held) {
  MergedStreams merged(streams);
  Bytes peak = held;
  while (const AmountChange* change = merged.next()) {
    held += change->bytes;
    peak = std::max(peak, held);
  }
  return peak;
}

/// Returns true if only two amounts can be charged and released at the same instant: the send buffer of a
/// message, and the transient bytes of an action. This is true if all actions take time. Otherwise, the last
/// stage and all messages must take time. Another stage may then take no time if its STEPs take time and it
/// recomputes nothing.
bool tells_instants(const Program& program, const CostTable& costs, const TurnTape& turns,
                    const TapeCosts& priced) {
  if (follows_from_lists(program, costs)) return true;
  if (!is_held_by_actions(program, costs)) return false;
  const EdgeNumbers edges(program);
  for (std::size_t stage = 0; stage < costs.stages.size(); ++stage) {
    const StageCost& cost = costs.stages[stage];
    const bool is_last = edges.leaving(static_cast<std::int32_t>(stage)).empty();
    // If the last stage takes no time, B may run at the same instant as its F. A STEP that takes no time may
    // run at the same instant as the action that has charged its gradients.
    if (!takes_time(cost) && (is_last || cost.step_ns == 0)) return false;
    // If W and its I run at the same instant, W would release bytes before I charges them.
    if (!takes_time(cost) && cost.recomputed > 0) return false;
  }
  for (std::size_t link = 0; link < turns.tape.links.size(); ++link) {
    const bool is_message = turns.tape.links[link].transfer != LinkClass::kNoTransfer;
    if (is_message && priced.links[link].hold_ns + priced.links[link].latency_ns == 0) return false;
  }
  return true;
}

}  // namespace

std::optional<std::vector<Bytes>> tape_peaks(const Program& program, const CostTable& costs,
                                             const TurnTape& turns, const TapeCosts& priced) {
  if (auto peaks = phase_peaks(program, costs, turns, priced)) return peaks;
  if (!tells_instants(program, costs, turns, priced)) return std::nullopt;
  const std::vector<InstructionTimes> times = instruction_times(turns.tape, priced);
  auto changes = TapeChanges(program, costs, turns, times).all();
  if (!changes) return std::nullopt;
  std::vector<Bytes> peaks = held_at_start(program, costs);
  for (std::size_t rank = 0; rank < peaks.size(); ++rank)
    peaks[rank] = peak_of((*changes)[rank].streams, peaks[rank]);
  return peaks;
}

// Computes the peak memory of ranks from the order of their lists. A rank runs one action after another.
// Each action charges bytes (adds them to the rank's memory) at its start, and releases bytes at its end.
// The next action starts at this end or later, and releases come first at equal times. So the peak is
// always at the start of an action, and it does not depend on the times.

std::optional<std::vector<Bytes>> list_peaks(const Program& program, const CostTable& costs) {
  // If edges have bytes, there are message buffers. They are filled and freed at times that depend on other
  // ranks.
  if (!follows_from_lists(program, costs) || std::ranges::any_of(costs.edges, has_bytes)) return std::nullopt;
  ListHoldings holdings(costs);
  std::vector<Bytes> peaks = held_at_start(program, costs);
  for (std::size_t rank = 0; rank < peaks.size(); ++rank) {
    Bytes held = peaks[rank];
    for (const Action& action : program.ranks[rank]) {
      const std::optional<ActionHolding> holding = holdings.next(action);
      if (!holding) return std::nullopt;
      held += holding->charged;
      peaks[rank] = std::max(peaks[rank], held + holding->transient);
      held -= holding->released;
    }
  }
  return peaks;
}

// F charges activations, which are released by B, or by I and W. The first B or W after a STEP charges the
// gradients, and the next STEP releases them. I charges the activations that it recomputes, and W releases
// them:
//
//   F   + kept        B   + gradients, - kept        STEP   - gradients
//                     I   + recomputed               W      + gradients, - kept, - recomputed

bool is_held_by_actions(const Program& program, const CostTable& costs) {
  return program.update == UpdateRule::minibatch && !program.mixed_versions && program.sharding == 0 &&
         program.iterations == 1 && !costs.microbatches_differ() && !holds_local_activations(program, costs);
}

bool follows_from_lists(const Program& program, const CostTable& costs) {
  return is_held_by_actions(program, costs) && std::ranges::all_of(costs.stages, takes_time);
}

std::vector<Bytes> held_at_start(const Program& program, const CostTable& costs) {
  std::vector<Bytes> held(program.ranks.size(), 0);
  for (std::size_t stage = 0; stage < program.placement.stages.size(); ++stage) {
    const StageCost& cost = costs.stages[stage];
    for (const std::int32_t rank : program.placement.stages[stage].ranks)
      held[index(rank)] += cost.weights + cost.cloned_weights + cost.optimizer_state;
  }
  return held;
}

ListHoldings::ListHoldings(const CostTable& costs)
    : costs_(costs), kinds_(costs.stages.size()), gradients_(costs.stages.size(), 0) {
  for (std::size_t stage = 0; stage < costs.stages.size(); ++stage) {
    const StageCost& cost = costs.stages[stage];
    for (const ActionKind kind : {ActionKind::forward, ActionKind::backward, ActionKind::backward_input,
                                  ActionKind::backward_weight}) {
      kinds_[stage][static_cast<std::size_t>(kind)] = {
          .known = true,
          .holding = {.charged = kind == ActionKind::forward ? cost.kept : 0,
                      .transient = transient_bytes(cost, kind),
                      .released = released_activations(cost, kind)}};
    }
    kinds_[stage][static_cast<std::size_t>(ActionKind::backward_input)].holding.charged += cost.recomputed;
    kinds_[stage][static_cast<std::size_t>(ActionKind::backward_weight)].holding.released += cost.recomputed;
    // A STEP releases gradients. Their bytes depend on earlier actions, so next() adds them.
    kinds_[stage][static_cast<std::size_t>(ActionKind::step)].known = true;
  }
}

}  // namespace penstock
