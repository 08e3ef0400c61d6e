#pragma once
// The data that a streamed walk (streamed_walk.cpp) stores: the state of each rank and stage, the messages in
// flight, and the queues that messages pass. rank_ledger.hpp accounts for the memory of each rank.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/turn_state.hpp"
#include "sim/engines/repeat.hpp"
#include "sim/network/message_costs.hpp"

namespace penstock {

/// The time interval of a transfer or reduction for which an action waits.
struct Interval {
  Ns start_ns = 0;
  Ns end_ns = 0;
};

/// Returns the time in [from, to) that at least one of the intervals covers. Sorts the intervals.
inline Ns covered(std::vector<Interval>& intervals, Ns from, Ns to) {
  if (intervals.size() > 1) std::ranges::sort(intervals, {}, &Interval::start_ns);
  Ns sum = 0;
  for (const Interval& interval : intervals) {
    // The intervals are sorted by start, and the time before `from` has been counted. So no time counts
    // twice.
    const Ns start = std::max(from, interval.start_ns);
    const Ns end = std::min(to, interval.end_ns);
    if (end <= start) continue;
    sum += end - start;
    from = end;
  }
  return sum;
}

struct RankState {
  Ns clock_ns = 0;
  Ns collectives_ns = 0;  ///< end of the rank's last collective
  /// Number of entries of the rank's list that were placed so far, including SENDs and RECVs.
  std::int64_t position = 0;
  std::int64_t actions = 0;           ///< number of placed compute actions
  RankMeter meter;                    ///< figures of the rank; filled only if the walk computes figures
  std::vector<std::int32_t> senders;  ///< ranks with which this rank exchanges messages
};

/// The state of a stage on one of the ranks that hold it.
struct HeldStage {
  std::int32_t rank = 0;
  Interval reduction;  ///< the latest reduction of the stage's gradients
  std::int64_t reductions = 0;
  LoopCursor next;    ///< position at or before the next F that has not run
  LoopCursor newest;  ///< position at or before the first F that uses the newest version that was looked for
};

/// A collective that some of its members have joined and others have not. The members join one after the
/// other.
struct Gathering {
  std::vector<std::int32_t> members;
  Ns start_ns = 0;
};

class HeldStages {
 public:
  HeldStages(const Program& program, const LoopHeads& heads) {
    for (const StagePlacement& stage : program.placement.stages) {
      std::vector<HeldStage>& held = stages_.emplace_back();
      for (const std::int32_t rank : stage.ranks) {
        held.push_back({.rank = rank,
                        .reduction = {},
                        .reductions = 0,
                        .next = heads.cursor(rank),
                        .newest = heads.cursor(rank)});
      }
    }
  }

  /// Returns the stage's state on a rank. Requires that the rank holds the stage.
  HeldStage& at(std::int32_t stage, std::int32_t rank) {
    return *std::ranges::find(stages_[index(stage)], rank, &HeldStage::rank);
  }
  /// Calls `see(stage, held)` for each stage on each rank that holds it. `held` is the state of the stage
  /// on that rank.
  template <class See>
  void for_each(const See& see) {
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      for (HeldStage& held : stages_[stage]) see(static_cast<std::int32_t>(stage), held);
    }
  }

 private:
  std::vector<std::vector<HeldStage>> stages_;  // state of each stage and replica
};

/// The forward passes (F) that follow the running actions in a rank's list. RankLedger asks for them. The
/// weight versions of a stage must never decrease along the list.
struct LaterForwards {
  const Program& program;
  const LoopHeads& heads;
  HeldStages& stages;
  std::int32_t rank = 0;
  std::size_t running = 0;  ///< number of actions of the running group, at which the cursor is

  bool keep_old_versions() const {
    return program.update != UpdateRule::minibatch && !program.mixed_versions;
  }
  bool next_has(std::int32_t stage, std::int32_t version) const {
    return has(stages.at(stage, rank).next, stage, 0, version);
  }
  bool some_has(std::int32_t stage, std::int32_t version) const {
    return has(stages.at(stage, rank).newest, stage, version, version);
  }

 private:
  /// Moves `cursor` to the first F of the stage with at least version `least`. Returns true if this F uses
  /// `version`. The next call continues from the cursor, so a run reads the list only once for each cursor.
  bool has(LoopCursor& cursor, std::int32_t stage, std::int32_t least, std::int32_t version) const {
    LoopCursor behind = heads.cursor(rank);
    for (std::size_t i = 0; i < running; ++i) ++behind;
    if (cursor.is_before(behind)) cursor = behind;
    for (; !cursor.at_end(); ++cursor) {
      const Action action = *cursor;
      const bool is_forward = action.kind == ActionKind::forward && action.stage == stage;
      if (is_forward && action.weight_version >= least) return action.weight_version == version;
    }
    return false;
  }
};

/// An activation or gradient of one microbatch that is sent but not received.
struct MessageInFlight {
  static constexpr std::int32_t kNoUnit = -1;

  std::int32_t unit = kNoUnit;
  /// True if the message goes to another rank. False if sender and receiver are the same rank, so that the
  /// message arrives at once.
  bool between_ranks = false;
  Ns start_ns = 0;
  Ns arrival_ns = 0;
  Bytes bytes = 0;
};

/// The messages of one stage edge and direction, by microbatch. The size of the table is a power of two, and
/// grows so that any two of its microbatches have different places.
class FlightTable {
 public:
  const MessageInFlight* find(std::int32_t unit) const {
    const std::size_t at = index(unit) & (size_ - 1);
    const MessageInFlight& place = size_ == few_.size() ? few_[at] : places_[at];
    return place.unit == unit ? &place : nullptr;
  }
  void put(const MessageInFlight& message) { open(message.unit) = message; }
  /// Adds a message from a stage to another stage on the same rank, and returns it.
  MessageInFlight& put_local(std::int32_t unit) {
    MessageInFlight& place = open(unit);
    place.unit = unit;
    place.between_ranks = false;
    place.bytes = 0;
    return place;
  }
  /// Removes the message of the microbatch `unit` from the table and returns it. Requires that find(unit) is
  /// not null.
  MessageInFlight take(std::int32_t unit) {
    MessageInFlight& place = place_of(unit);
    const MessageInFlight taken = place;
    place.unit = MessageInFlight::kNoUnit;
    --count_;
    return taken;
  }

  template <class State>
  void show(State& state) {
    state.same(count_);
    if (!state.goes_on()) return;
    std::vector<MessageInFlight> messages = take_all();
    for (MessageInFlight& message : messages) {
      state.unit(message.unit);
      state.same(message.bytes);
      if (state.flag(message.between_ranks)) {
        state.time(message.start_ns);
        state.time(message.arrival_ns);
      }
    }
    for (const MessageInFlight& message : messages) put(message);
  }

 private:
  std::span<MessageInFlight> places() {
    return size_ == few_.size() ? std::span<MessageInFlight>(few_) : std::span<MessageInFlight>(places_);
  }
  /// Returns a free place for a message of this microbatch. Enlarges the table if necessary.
  MessageInFlight& open(std::int32_t unit) {
    MessageInFlight* place = &place_of(unit);
    while (place->unit != MessageInFlight::kNoUnit) place = &grown_for(unit);
    ++count_;
    return *place;
  }
  MessageInFlight& place_of(std::int32_t unit) { return places()[index(unit) & (size_ - 1)]; }

  /// Removes all messages from the table and returns them, ordered by microbatch.
  std::vector<MessageInFlight> take_all() {
    std::vector<MessageInFlight> messages;
    messages.reserve(static_cast<std::size_t>(std::exchange(count_, 0)));
    for (MessageInFlight& place : places()) {
      if (place.unit != MessageInFlight::kNoUnit) messages.push_back(place);
      place.unit = MessageInFlight::kNoUnit;
    }
    // A table of size 4 stores the units 5 6 7 8 at the places 1 2 3 0. A rotation that puts the least unit
    // first usually sorts them.
    std::ranges::rotate(messages, std::ranges::min_element(messages, {}, &MessageInFlight::unit));
    if (!std::ranges::is_sorted(messages, {}, &MessageInFlight::unit))
      std::ranges::sort(messages, {}, &MessageInFlight::unit);
    return messages;
  }

  [[gnu::noinline]] MessageInFlight& grown_for(std::int32_t unit) {
    const std::vector<MessageInFlight> messages = take_all();
    // Two messages need the same place. This cannot happen if the table is larger than the distance of their
    // microbatches.
    size_ *= 2;
    places_.assign(size_, {});
    for (const MessageInFlight& message : messages) put(message);
    return place_of(unit);
  }

  std::size_t size_ = 2;  // always a power of two
  std::int64_t count_ = 0;
  std::array<MessageInFlight, 2> few_{};
  std::vector<MessageInFlight> places_;  // messages by place; used if the table has more than two places
};

class MessagesInFlight {
 public:
  explicit MessagesInFlight(const Program& program) : ways_(program), tables_(ways_.count()) {}

  const EdgeNumbers& edges() const { return ways_.edges(); }

  /// Returns the number of a stage that has not yet produced an input of the action. Returns nothing if no
  /// input is missing. Follows the rules of HandedOver.
  std::optional<std::int32_t> missing_giver(const Action& action) const {
    for (const ActionWay& way : ways_.taken_by(action)) {
      if (tables_[way.number].find(action.microbatch) == nullptr) return way.stage;
    }
    return std::nullopt;
  }
  /// Adds the outputs of the action, by the rules of HandedOver, and calls `see` for each of them. During a
  /// call of `see`, latest() returns the output in question.
  template <class See>
  void hand_on(const Action& action, const See& see) {
    for (const ActionWay& way : ways_.given_by(action)) {
      latest_way_ = way.number;
      latest_ = &tables_[way.number].put_local(action.microbatch);
      see(way);
    }
  }

  MessageInFlight& latest() { return *latest_; }
  /// Returns the number of the edge and direction (ActionWay) of the latest message.
  std::size_t latest_way() const { return latest_way_; }

  /// Removes the action's inputs and calls `see` for each of them. Requires that no input is missing.
  template <class See>
  void take_in(const Action& action, const See& see) {
    for (const ActionWay& way : ways_.taken_by(action)) see(tables_[way.number].take(action.microbatch));
  }

  /// Removes all messages that are in flight.
  void clear() { std::ranges::fill(tables_, FlightTable()); }

  template <class State>
  void show(State& state) {
    for (std::size_t table = 0; table < tables_.size() && state.goes_on(); ++table)
      tables_[table].show(state);
  }

 private:
  ActionWays ways_;
  std::vector<FlightTable> tables_;  // one table for each edge and direction
  MessageInFlight* latest_ = nullptr;
  std::size_t latest_way_ = 0;
};

/// The route of messages from one rank to another, for one stage edge and direction. It is created when its
/// first message is sent.
struct TransferWay {
  std::int32_t from_rank = 0;
  std::int32_t to_rank = 0;
  std::size_t sender_queue = 0;
  std::size_t receiver_queue = 0;
  Ns hold_ns = 0;
  Ns latency_ns = 0;
  Bytes bytes = 0;            ///< bytes of one message
  std::int64_t messages = 0;  ///< number of messages so far
};

class TransferWays {
 public:
  /// Keeps references to both arguments, which must outlive this object.
  TransferWays(const Experiment& experiment, const EdgeNumbers& edges);

  /// Returns the route of a message. `number` is that of the message's edge and direction (ActionWay in
  /// schedules/passes/turn_state.hpp).
  TransferWay& way_of(const StageMessage& message, std::size_t number, std::int32_t from_rank,
                      std::int32_t to_rank) {
    EdgeWays& ways = ways_[number];
    const auto leads = [&](const TransferWay& way) {
      return way.from_rank == from_rank && way.to_rank == to_rank;
    };
    if (leads(ways.first)) return ways.first;
    if (ways.first.from_rank == kNoRank) return ways.first = new_way(message, number, from_rank, to_rank);
    const auto known = std::ranges::find_if(ways.others, leads);
    if (known != ways.others.end()) return *known;
    return ways.others.emplace_back(new_way(message, number, from_rank, to_rank));
  }

  /// Returns the start of a message that is ready at `ready_ns`, and marks its two queues as busy. The
  /// message starts after all earlier messages of both queues.
  Ns start(const TransferWay& way, Ns ready_ns) {
    Ns& leaves = queues_[way.sender_queue].free_ns;
    Ns& enters = queues_[way.receiver_queue].free_ns;
    const Ns start_ns = std::max({ready_ns, leaves, enters});
    leaves = enters = start_ns + way.hold_ns;
    return start_ns;
  }

  /// Calls `see` for every route.
  template <class See>
  void for_each(const See& see) {
    for (EdgeWays& ways : ways_) {
      if (ways.first.from_rank != kNoRank) see(ways.first);
      for (TransferWay& way : ways.others) see(way);
    }
  }

  /// Passes the state of queues and routes to a visitor, which records or compares it. A queue's time is
  /// passed only if it is after the clock of some sender (`clock_of(rank)`). An earlier time can no longer
  /// delay a message.
  template <class State, class ClockOf>
  void show(State& state, const ClockOf& clock_of) {
    state.same(std::ssize(queues_));
    for (Queue& queue : queues_) {
      // A time without effect stays constant while all other times increase. If it were passed, two states
      // could never be equal.
      const auto matters = [&](std::int32_t sender) { return queue.free_ns > clock_of(sender); };
      if (state.flag(std::ranges::any_of(queue.senders, matters))) state.time(queue.free_ns);
    }
    for_each([&](TransferWay& way) {
      state.same(way.to_rank);
      state.count(way.messages);
    });
  }

 private:
  static constexpr std::int32_t kNoRank = -1;

  /// The routes of messages for one stage edge and one direction. The first route is stored directly, because
  /// there is usually only one.
  struct EdgeWays {
    TransferWay first{.from_rank = kNoRank};
    std::vector<TransferWay> others;
  };
  struct Queue {
    Ns free_ns = 0;
    std::vector<std::int32_t> senders;  // ranks that send messages through the queue
  };

  TransferWay new_way(const StageMessage& message, std::size_t number, std::int32_t from_rank,
                      std::int32_t to_rank);
  std::size_t queue_at(std::int32_t rank, std::size_t number, std::int32_t sender);

  const Experiment& experiment_;
  const EdgeNumbers& edges_;
  TransferPrices prices_;
  std::vector<EdgeWays> ways_;  // routes of each edge and direction
  std::vector<Queue> queues_;
  // Number of each queue, by rank and queue at the rank.
  std::map<std::pair<std::int32_t, std::size_t>, std::size_t> queue_numbers_;
};

}  // namespace penstock
