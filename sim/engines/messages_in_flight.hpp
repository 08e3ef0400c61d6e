#pragma once
// The outputs that stages have produced and no action has received yet. A streamed walk (streamed_walk.cpp)
// stores no other messages. It is the Inputs argument of TurnTaking.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/edge_numbers.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/action_ways.hpp"

namespace penstock {

/// An activation or gradient of one microbatch that is sent but not received.
struct MessageInFlight {
  static constexpr std::int32_t kNoUnit = -1;

  std::int32_t unit = kNoUnit;
  bool between_ranks = false;  ///< false: the message stays on its rank and arrives at once
  Ns start_ns = 0;
  Ns arrival_ns = 0;
  Bytes bytes = 0;
};

/// The messages of one stage edge and direction, by microbatch. The table size is a power of two, and at
/// least the largest distance between two microbatches in the table.
class FlightTable {
 public:
  const MessageInFlight* find(std::int32_t unit) const {
    const std::size_t at = index(unit) & (size_ - 1);
    const MessageInFlight& place = size_ == few_.size() ? few_[at] : places_[at];
    return place.unit == unit ? &place : nullptr;
  }
  void put(const MessageInFlight& message) { open(message.unit) = message; }
  /// Adds a message that stays on its rank.
  MessageInFlight& put_local(std::int32_t unit) {
    MessageInFlight& place = open(unit);
    place.unit = unit;
    place.between_ranks = false;
    place.bytes = 0;
    return place;
  }
  /// Removes and returns a message. Requires that find(unit) is not null.
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
  /// Returns a free place for the message.
  MessageInFlight& open(std::int32_t unit) {
    MessageInFlight* place = &place_of(unit);
    while (place->unit != MessageInFlight::kNoUnit) place = &grown_for(unit);
    ++count_;
    return *place;
  }
  MessageInFlight& place_of(std::int32_t unit) { return places()[index(unit) & (size_ - 1)]; }

  /// Removes all messages and returns them by microbatch. The order does not depend on the size of the table.
  std::vector<MessageInFlight> take_all() {
    std::vector<MessageInFlight> messages;
    messages.reserve(static_cast<std::size_t>(std::exchange(count_, 0)));
    for (MessageInFlight& place : places()) {
      if (place.unit != MessageInFlight::kNoUnit) messages.push_back(place);
      place.unit = MessageInFlight::kNoUnit;
    }
    // A table of size 4 stores the units 5 6 7 8 at 1 2 3 0. A rotation to the least unit therefore sorts
    // them.
    std::ranges::rotate(messages, std::ranges::min_element(messages, {}, &MessageInFlight::unit));
    if (!std::ranges::is_sorted(messages, {}, &MessageInFlight::unit))
      std::ranges::sort(messages, {}, &MessageInFlight::unit);
    return messages;
  }

  [[gnu::noinline]] MessageInFlight& grown_for(std::int32_t unit) {
    const std::vector<MessageInFlight> messages = take_all();
    // Two messages need the same place. This cannot happen if the table is larger than their distance.
    size_ *= 2;
    places_.assign(size_, {});
    for (const MessageInFlight& message : messages) put(message);
    return place_of(unit);
  }

  std::size_t size_ = 2;  // always a power of two
  std::int64_t count_ = 0;
  std::array<MessageInFlight, 2> few_{};
  std::vector<MessageInFlight> places_;  // used if the table has more than two places
};

class MessagesInFlight {
 public:
  explicit MessagesInFlight(const Program& program) : ways_(program), tables_(ways_.count()) {}

  const EdgeNumbers& edges() const { return ways_.edges(); }

  /// Returns a stage that has not produced an input of the action yet. Returns nothing if no input is missing
  /// (as HandedOver).
  std::optional<std::int32_t> missing_giver(const Action& action) const {
    for (const ActionWay& way : ways_.taken_by(action)) {
      if (tables_[way.number].find(action.microbatch) == nullptr) return way.stage;
    }
    return std::nullopt;
  }
  /// Adds the outputs of the action (as HandedOver). While `see` runs for a message, latest() returns that
  /// message.
  template <class See>
  void hand_on(const Action& action, const See& see) {
    for (const ActionWay& way : ways_.given_by(action)) {
      latest_way_ = way.number;
      latest_ = &tables_[way.number].put_local(action.microbatch);
      see(way);
    }
  }

  MessageInFlight& latest() { return *latest_; }
  /// Returns the number of the latest message's edge and direction (ActionWay).
  std::size_t latest_way() const { return latest_way_; }

  /// Removes the action's inputs and calls `see` for each of them. Requires that no input is missing.
  template <class See>
  void take_in(const Action& action, const See& see) {
    for (const ActionWay& way : ways_.taken_by(action)) see(tables_[way.number].take(action.microbatch));
  }

  /// Removes all messages that no action has received.
  void clear() { std::ranges::fill(tables_, FlightTable()); }

  template <class State>
  void show(State& state) {
    for (std::size_t table = 0; table < tables_.size() && state.goes_on(); ++table)
      tables_[table].show(state);
  }

 private:
  ActionWays ways_;
  std::vector<FlightTable> tables_;  // one for each edge and direction
  MessageInFlight* latest_ = nullptr;
  std::size_t latest_way_ = 0;
};

}  // namespace penstock
