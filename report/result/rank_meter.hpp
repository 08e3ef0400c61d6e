#pragma once
// A meter that computes the figures of one rank while its actions come in list order. All code that times a
// program uses a meter, so that each figure of a rank is computed in one place:
//
//   spans of a run or a measurement      figures_of() (metrics.cpp)
//   actions of a walk as it places them  sim/engines/streamed_walk.cpp
//
// A walk that jumps over repetitions advances the meter with show(), which states how each member grows.
// tests/sim/streamed_run_test.cpp compares the two. To add a figure, add a member to MeteredFigures, compute
// it in RankMeter, show it, and add a row to figure_rows.cpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {

/// The figures that a meter computes. RankReport (result.hpp) has all of them.
struct MeteredFigures {
  /// The time of compute actions; an overlapped pair counts once.
  Ns busy_ns = 0;
  /// The idle time during which a transfer or collective is under way for which the next compute action
  /// waits.
  Ns exposed_communication_ns = 0;
  /// The largest number of live microbatch activations; one lives from F's start to the end of B (or W).
  std::int64_t peak_live_activations = 0;
  /// The bytes of its SENDs, and its part of collectives in a ring.
  Bytes sent_bytes = 0;
  Bytes received_bytes = 0;

  friend bool operator==(const MeteredFigures&, const MeteredFigures&) = default;
};

/// The number of microbatches that a rank has begun in some way and not ended, over time, and its peak. The
/// compute actions of the rank begin and end microbatches in list order. At one instant the ends of
/// microbatches that began earlier count first; then the order of the list decides (the rule of
/// report/timeline/holdings.hpp).
class OpenMicrobatches {
 public:
  void begin(const Action& action, Ns now_ns) {
    enter(now_ns);
    begun_now_.push_back(unit_of(action));
    most_now_ = std::max(most_now_, ++change_now_);
  }
  /// Ignores a microbatch that ends and has not begun, as in a part of a timeline.
  void end(const Action& action, Ns now_ns) {
    enter(now_ns);
    if (began_now(unit_of(action))) {
      --change_now_;
    } else if (open_before_ > 0) {
      --open_before_;
    }
  }
  std::int64_t peak() const { return std::max(peak_, open_before_ + most_now_); }

  /// Shows the members to a visitor of states. `latest_ns` is the end of the rank's latest action. An instant
  /// before it is over, and does not count any more.
  template <class State>
  void show(State& state, Ns latest_ns) {
    if (instant_ns_ < latest_ns) enter(latest_ns);
    state.held(open_before_);
    if (!state.flag(instant_ns_ == latest_ns && !begun_now_.empty())) return;
    state.time(instant_ns_);
    state.same(change_now_);
    state.same(most_now_);
    state.same(static_cast<std::int64_t>(begun_now_.size()));
    for (Unit& unit : begun_now_) {
      state.same(unit.stage);
      state.unit(unit.microbatch);
    }
  }

 private:
  struct Unit {
    std::int32_t stage = 0;
    std::int32_t microbatch = 0;

    friend bool operator==(const Unit&, const Unit&) = default;
  };
  static Unit unit_of(const Action& action) { return {action.stage, action.microbatch}; }

  void enter(Ns now_ns) {
    if (now_ns == instant_ns_) return;
    peak_ = peak();
    open_before_ += change_now_;
    change_now_ = most_now_ = 0;
    begun_now_.clear();
    instant_ns_ = now_ns;
  }
  bool began_now(const Unit& unit) const { return std::ranges::find(begun_now_, unit) != begun_now_.end(); }

  std::int64_t open_before_ = 0;  // begun before this instant, less those of them that ended at it
  std::int64_t peak_ = 0;         // up to the instant before
  Ns instant_ns_ = 0;             // the latest begin or end
  std::vector<Unit> begun_now_;
  std::int64_t change_now_ = 0;  // begun at this instant, less those of them that ended at it
  std::int64_t most_now_ = 0;    // the peak of change_now_
};

class RankMeter {
 public:
  /// Adds a compute action, or an overlapped group, which is one action. `covered_ns(from, to)` returns how
  /// much of that time is covered by the messages and collectives for which the action has waited. It is
  /// called where the rank was idle before.
  template <class Covered>
  void compute(std::span<const Action> group, Ns start_ns, Ns end_ns, const Covered& covered_ns) {
    // Transfers beside compute do not count, and neither does idle time in which no message is under way.
    if (start_ns > last_ns_) figures_.exposed_communication_ns += covered_ns(last_ns_, start_ns);
    time(start_ns, end_ns);
    // Actions of a group start together. Those that take no time start and end one after the other.
    const bool at_once = start_ns == end_ns;
    for (const Action& action : group) {
      begin(action, start_ns);
      if (at_once) end(action, end_ns);
    }
    for (std::size_t i = 0; i < group.size() && !at_once; ++i) end(group[i], end_ns);
  }
  /// Adds the time of a compute action or group, and nothing else.
  void time(Ns start_ns, Ns end_ns) {
    figures_.busy_ns += end_ns - start_ns;
    first_ns_ = has_computed_ ? std::min(first_ns_, start_ns) : start_ns;
    last_ns_ = std::max(last_ns_, end_ns);
    has_computed_ = true;
  }
  void send(Bytes bytes) { figures_.sent_bytes += bytes; }
  void receive(Bytes bytes) { figures_.received_bytes += bytes; }
  /// Adds a collective, in whose ring each member sends as much as it receives.
  void exchange(Bytes bytes) {
    send(bytes);
    receive(bytes);
  }

  /// Returns the figures so far.
  MeteredFigures figures() const {
    MeteredFigures figures = figures_;
    figures.peak_live_activations = live_.peak();
    return figures;
  }
  /// Returns the start of the first compute action, or 0 before it.
  Ns first_ns() const { return first_ns_; }
  /// Returns the end of the last compute action, or 0 before it.
  Ns last_ns() const { return last_ns_; }

  /// Shows the members to a visitor of states (sim/engines/kept_state.hpp): a time, a number that grows by
  /// the same amount in each repetition, or a number over time, whose peak does not grow if it does not. The
  /// first start does not change, so it is left out.
  template <class State>
  void show(State& state) {
    live_.show(state, last_ns_);
    state.time(last_ns_);
    state.count(figures_.busy_ns);
    state.count(figures_.exposed_communication_ns);
    state.count(figures_.sent_bytes);
    state.count(figures_.received_bytes);
  }

 private:
  void begin(const Action& action, Ns now_ns) {
    if (action.kind == ActionKind::forward) live_.begin(action, now_ns);
  }
  void end(const Action& action, Ns now_ns) {
    if (makes_weight_gradient(action.kind)) live_.end(action, now_ns);
  }

  MeteredFigures figures_;
  OpenMicrobatches live_;  // activations
  bool has_computed_ = false;
  Ns first_ns_ = 0;
  Ns last_ns_ = 0;  // from then on the rank is idle
};

}  // namespace penstock
