#pragma once
// What stages have handed each other and nobody has taken in yet: all that a streamed walk
// (streamed_walk.cpp) stores of messages. The inputs of TurnTaking.

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

/// An activation or gradient of one microbatch on its way.
struct MessageInFlight {
  static constexpr std::int32_t kNoUnit = -1;

  std::int32_t unit = kNoUnit;
  bool between_ranks = false;  ///< otherwise it is there as soon as it is made
  Ns start_ns = 0;
  Ns arrival_ns = 0;
  Bytes bytes = 0;
};

/// Those of one stage edge and direction, by microbatch: a table as large as the largest distance between two
/// that are there at a time, rounded up to a power of two.
class FlightTable {
 public:
  const MessageInFlight* find(std::int32_t unit) const {
    const std::size_t at = index(unit) & (size_ - 1);
    const MessageInFlight& place = size_ == few_.size() ? few_[at] : places_[at];
    return place.unit == unit ? &place : nullptr;
  }
  void put(const MessageInFlight& message) { open(message.unit) = message; }
  /// A message that stays on its rank.
  MessageInFlight& put_local(std::int32_t unit) {
    MessageInFlight& place = open(unit);
    place.unit = unit;
    place.between_ranks = false;
    place.bytes = 0;
    return place;
  }
  /// Requires find(unit).
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
  /// A free place for the message.
  MessageInFlight& open(std::int32_t unit) {
    MessageInFlight* place = &place_of(unit);
    while (place->unit != MessageInFlight::kNoUnit) place = &grown_for(unit);
    ++count_;
    return *place;
  }
  MessageInFlight& place_of(std::int32_t unit) { return places()[index(unit) & (size_ - 1)]; }

  /// By microbatch, whatever the size of the table: mostly one behind the other from the first one's place
  /// on.
  std::vector<MessageInFlight> take_all() {
    std::vector<MessageInFlight> messages;
    messages.reserve(static_cast<std::size_t>(std::exchange(count_, 0)));
    for (MessageInFlight& place : places()) {
      if (place.unit != MessageInFlight::kNoUnit) messages.push_back(place);
      place.unit = MessageInFlight::kNoUnit;
    }
    // In a table of 4 the places of units 5 6 7 8 are 1 2 3 0: from the least on they are in order.
    std::ranges::rotate(messages, std::ranges::min_element(messages, {}, &MessageInFlight::unit));
    if (!std::ranges::is_sorted(messages, {}, &MessageInFlight::unit))
      std::ranges::sort(messages, {}, &MessageInFlight::unit);
    return messages;
  }

  [[gnu::noinline]] MessageInFlight& grown_for(std::int32_t unit) {
    const std::vector<MessageInFlight> messages = take_all();
    // Two that are there share a place; in a table larger than their distance no two do.
    size_ *= 2;
    places_.assign(size_, {});
    for (const MessageInFlight& message : messages) put(message);
    return place_of(unit);
  }

  std::size_t size_ = 2;  // a power of two
  std::int64_t count_ = 0;
  std::array<MessageInFlight, 2> few_{};
  std::vector<MessageInFlight> places_;  // where it has more than a few
};

class MessagesInFlight {
 public:
  explicit MessagesInFlight(const Program& program) : ways_(program), tables_(ways_.count()) {}

  const EdgeNumbers& edges() const { return ways_.edges(); }

  /// As HandedOver.
  std::optional<std::int32_t> missing_giver(const Action& action) const {
    for (const ActionWay& way : ways_.taken_by(action)) {
      if (tables_[way.number].find(action.microbatch) == nullptr) return way.stage;
    }
    return std::nullopt;
  }
  /// As HandedOver; while `see` has a message, latest() is it.
  template <class See>
  void hand_on(const Action& action, const See& see) {
    for (const ActionWay& way : ways_.given_by(action)) {
      latest_way_ = way.number;
      latest_ = &tables_[way.number].put_local(action.microbatch);
      see(way);
    }
  }

  MessageInFlight& latest() { return *latest_; }
  /// Over which edge and in which direction it goes (ActionWay).
  std::size_t latest_way() const { return latest_way_; }

  /// Takes away what the action takes in, and shows it. Requires that nothing of it is missing.
  template <class See>
  void take_in(const Action& action, const See& see) {
    for (const ActionWay& way : ways_.taken_by(action)) see(tables_[way.number].take(action.microbatch));
  }

  /// Forgets what nobody has taken in.
  void clear() { std::ranges::fill(tables_, FlightTable()); }

  template <class State>
  void show(State& state) {
    for (std::size_t table = 0; table < tables_.size() && state.goes_on(); ++table)
      tables_[table].show(state);
  }

 private:
  ActionWays ways_;
  std::vector<FlightTable> tables_;  // by way
  MessageInFlight* latest_ = nullptr;
  std::size_t latest_way_ = 0;
};

}  // namespace penstock
