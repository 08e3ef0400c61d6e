#pragma once
// Counts the memory of one rank in a streamed walk (streamed_walk.cpp): the current amounts, their peaks,
// and the live weight versions. It stores only amounts that the rank holds now. sim/memory/memory.hpp
// follows the same rules but needs all spans of the rank.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "report/print/memory_category.hpp"
#include "report/result/result.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/needs.hpp"
#include "sim/engines/repeat.hpp"

namespace penstock {

/// The order in which the caller passes memory changes to HeldAmounts. Peaks are correct only if changes are
/// applied in order of time, so HeldAmounts must know whether they arrive in this order.
enum class TellingOrder : std::uint8_t {
  in_order,  // changes arrive in order of time, so each one is applied at once
  delayed,   // changes arrive in another order, so each one waits until no earlier change can follow
};

/// The time at which a released amount was charged: at the instant of its release, or earlier.
enum class Charged : std::uint8_t { earlier, at_this_instant };
constexpr Charged charged_at(Ns since_ns, Ns now_ns) {
  return since_ns == now_ns ? Charged::at_this_instant : Charged::earlier;
}

/// The amounts that a rank currently holds, by kind, with the peak of each kind. The first
/// kMemoryCategoryCount kinds are categories of memory, whose sum is the total. The other kinds do not
/// count in the total.
class HeldAmounts {
 public:
  HeldAmounts(std::size_t kinds, TellingOrder order)
      : order_(order), further_(kinds > kFirst ? kinds - kFirst : 0) {}

  /// Adds an amount. `by` is the action that charges it, at `position` of the rank's list.
  void charge(std::size_t kind, std::int64_t amount, Ns time_ns, std::int64_t position, const Action& by) {
    if (amount == 0) return;
    if (order_ == TellingOrder::in_order) add(kind, amount);
    if (order_ == TellingOrder::in_order && total_ <= peak_total_)
      return;  // usually there is no new peak, so nothing is recorded
    note({.time_ns = time_ns,
          .phase = 1,
          .order = 1,
          .position = position,
          .kind = kind,
          .amount = amount,
          .by = by});
  }
  /// Removes an amount that another action has charged before. `position` is that of the releasing action
  /// in the rank's list.
  void release(std::size_t kind, std::int64_t amount, Ns time_ns, std::int64_t position, Charged charged) {
    release_in_order(kind, amount, time_ns, position, charged, 0);
  }
  /// Removes an amount that the same action, at `position` of the rank's list, has charged itself.
  void release_own(std::size_t kind, std::int64_t amount, Ns time_ns, std::int64_t position,
                   Charged charged) {
    release_in_order(kind, amount, time_ns, position, charged, 2);
  }
  /// Adds an amount that the rank holds during the whole run.
  void hold_for_ever(std::size_t kind, std::int64_t amount) {
    if (amount != 0) apply({.phase = 1, .order = 1, .position = -1, .kind = kind, .amount = amount});
  }

  /// Returns true if many changes wait to be applied. The caller should then call settle().
  bool is_full() const { return waiting_.size() >= most_waiting_; }
  /// Applies the waiting changes whose time is before `before_ns`. Afterwards, the caller must not add a
  /// change with an earlier time.
  void settle(Ns before_ns);

  std::int64_t peak(std::size_t kind) const {
    return (kind < kFirst ? first_[kind] : further_[kind - kFirst]).peak;
  }
  /// Returns the rank's memory at its peak. Requires that settle() has applied all changes.
  RankMemory memory() const;

  template <class State>
  void show(State& state) {
    state.same(std::ssize(waiting_));
    for (Amount& amount : first_) state.held(amount.held);
    for (Amount& amount : further_) state.held(amount.held);
    state.held(total_);
    for (Change& change : waiting_) {
      if (!state.goes_on()) return;
      show(state, change);
    }
  }

 private:
  struct Amount {
    std::int64_t held = 0;
    std::int64_t peak = 0;
  };
  static constexpr std::size_t kFirst = kMemoryCategoryCount + 1;
  Amount& amount_of(std::size_t kind) { return kind < kFirst ? first_[kind] : further_[kind - kFirst]; }
  struct Change {
    Ns time_ns = 0;
    /// The first key by which changes at one instant are sorted. It is 0 for the release of an amount that
    /// was charged at an earlier instant, and 1 for all other changes.
    std::int32_t phase = 0;
    /// Order at one position: 0 for the release of another action's charge, 1 for a charge, 2 for the release
    /// of the action's own charge.
    std::int32_t order = 0;
    std::int64_t position = 0;
    std::size_t kind = 0;
    std::int64_t amount = 0;  ///< negative for a release
    Action by{};              ///< the action that charges the amount; not set for a release
  };

  void release_in_order(std::size_t kind, std::int64_t amount, Ns time_ns, std::int64_t position,
                        Charged charged, std::int32_t order) {
    if (amount == 0) return;
    if (order_ == TellingOrder::in_order) {
      add(kind, -amount);
      return;
    }
    note({.time_ns = time_ns,
          .phase = charged == Charged::at_this_instant ? 1 : 0,
          .order = order,
          .position = position,
          .kind = kind,
          .amount = -amount});
  }
  /// Adds a change to the waiting list. If changes arrive in order, the change has been applied already,
  /// and only the new peak is recorded.
  void note(const Change& change);
  void apply(const Change& change) {
    add(change.kind, change.amount);
    if (total_ > peak_total_) reach_peak(change);
  }
  void add(std::size_t kind, std::int64_t change) {
    Amount& amount = amount_of(kind);
    amount.held += change;
    amount.peak = std::max(amount.peak, amount.held);
    if (kind < kMemoryCategoryCount) total_ += change;
  }
  void reach_peak(const Change& change);

  template <class State>
  static void show(State& state, Change& change) {
    state.time(change.time_ns);
    state.same(change.phase * 4 + change.order);
    state.same(static_cast<std::int64_t>(change.kind));
    state.same(change.amount);
    state.count(change.position);
    if (change.amount < 0) return;
    state.same(static_cast<std::int64_t>(change.by.kind));
    state.same(change.by.stage);
    state.same(change.by.peer);
    if (state.flag(change.by.microbatch != kNoMicrobatch)) state.unit(change.by.microbatch);
  }

  TellingOrder order_;
  std::array<Amount, kFirst> first_{};  // amounts of the kinds below kFirst
  std::vector<Amount> further_;         // amounts of all other kinds
  std::int64_t total_ = 0;
  std::int64_t peak_total_ = 0;
  Change at_peak_;
  MemoryByCategory held_at_peak_{};
  std::vector<Change> waiting_;
  std::size_t most_waiting_ = kFewWaiting;
  static constexpr std::size_t kFewWaiting = 32;
};

/// A compute action with its costs, its times, and its position in the list of the rank.
struct PlacedAction {
  const Action& action;
  const StageCost& cost;  ///< costs of the action's stage for its microbatch
  Ns start_ns = 0;
  Ns end_ns = 0;
  std::int64_t position = 0;
};

/// The live weight versions of a stage. For each version, it counts the microbatches that have run F but
/// not yet the end of their backward pass (B or W). Adjacent versions with equal counts are stored as one
/// run. An asynchronous rank may have many versions, most of them with equal counts.
class LiveVersions {
 public:
  std::int32_t newest() const { return newest_; }
  void forward(std::int32_t version) { set(version, open(version) + 1); }
  void backward(std::int32_t version) { set(version, open(version) - 1); }
  bool is_open(std::int32_t version) const { return open(version) > 0; }
  /// Adds a newer version with a count of 0.
  void step();
  /// Removes `version`, which no later action may use. It must not be the newest version.
  void drop(std::int32_t version);

  template <class State>
  void show(State& state) {
    std::int64_t newest_version = newest_;
    state.count(newest_version);
    const auto moved = static_cast<std::int32_t>(newest_version - newest_);
    newest_ += moved;
    state.same(std::ssize(runs_));
    for (Run& run : runs_) {
      run.first += moved;
      state.same(newest_ - run.first);
      state.same(run.open);
      if (!state.goes_on()) return;
    }
  }

 private:
  /// Adjacent versions with equal counts. They go from `first` to the version before the next run.
  struct Run {
    std::int32_t first = 0;
    std::int32_t open = 0;
  };
  static constexpr std::int32_t kDropped = -1;

  std::size_t run_of(std::int32_t version) const;
  std::int32_t open(std::int32_t version) const { return runs_[run_of(version)].open; }
  void set(std::int32_t version, std::int32_t open);
  /// Splits run number `run` - 1 at version `first`. The second part becomes run number `run`.
  void begin_run(std::size_t run, std::int32_t first);
  void join_run_before(std::size_t run);

  std::int32_t newest_ = 0;
  std::vector<Run> runs_{{}};  // runs in ascending order of versions
};

class RankLedger {
 public:
  /// Creates the record of a rank's memory. `stages` are the stages that the rank holds.
  RankLedger(const std::vector<std::int32_t>& stages, const CostTable& costs, TellingOrder order);

  /// Records a compute action. `later` answers questions about the F that follow this action in the rank's
  /// list:
  ///   next_has(stage, version)   whether the next F of the stage uses the version
  ///   some_has(stage, version)   whether any later F of the stage uses it
  ///   keep_old_versions()        whether an action may use a version after the STEP that replaces it
  /// The versions in successive calls of some_has() for one stage ascend.
  template <class LaterForwards>
  void compute(const PlacedAction& placed, const LaterForwards& later) {
    StageAccount& stage = account_of(placed.action.stage);
    if (placed.action.kind == ActionKind::step) {
      step(stage, placed, later);
      return;
    }
    const Bytes transient = transient_bytes(placed.cost, placed.action.kind);
    if (transient != 0) charge_transient(placed, transient);
    if (placed.action.kind == ActionKind::forward) forward(placed);
    if (placed.action.kind == ActionKind::backward_input && placed.cost.recomputed != 0) recompute(placed);
    if (makes_weight_gradient(placed.action.kind) && !stage.gradients_held) open_gradients(stage, placed);
    if (placed.action.kind == ActionKind::forward && later.keep_old_versions())
      stage.versions.forward(placed.action.weight_version);
    if (transient != 0) release_transient(placed, transient);
    if (is_backward(placed.action.kind)) backward(stage, placed, later);
  }
  void reduce(const PlacedAction& placed) {
    StageAccount& stage = account_of(placed.action.stage);
    if (!stage.gradients_held) open_gradients(stage, placed);
  }

  /// Records the send buffer of a message. The rank holds it from the end of the producing action to the
  /// arrival of the message.
  void send(const Action& action, Bytes bytes, Ns produced_ns, Ns arrival_ns, std::int64_t position);
  /// Records the receive buffer of a message. The rank holds it from the start of the transfer until
  /// received() releases it.
  void receive(const Action& action, Bytes bytes, Ns start_ns, std::int64_t position);
  void received(const PlacedAction& consumer, Bytes bytes, Ns start_ns);

  HeldAmounts& held() { return held_; }
  std::int32_t peak_weight_versions() const;

  template <class State>
  void show(State& state, Ns now) {
    held_.show(state);
    const bool instant_counts = state.flag(!fresh_.empty() && instant_ns_ >= now);
    if (instant_counts) {
      state.time(instant_ns_);
      state.same(std::ssize(fresh_));
      for (Fresh& fresh : fresh_) {
        state.same(static_cast<std::int64_t>(fresh.kind));
        state.unit(fresh.number);
      }
    }
    for (StageAccount& stage : stages_) {
      if (state.flag(stage.gradients_held)) show_unless_past(state, stage.gradients_since_ns, now);
      stage.versions.show(state);
    }
  }

 private:
  struct StageAccount {
    std::int32_t stage = 0;
    std::size_t versions_kind = 0;
    bool gradients_held = false;
    Ns gradients_since_ns = 0;
    LiveVersions versions;
  };
  /// An amount that was charged at the latest instant. `number` is a microbatch or a weight version, which
  /// distinguishes amounts of one kind.
  struct Fresh {
    std::size_t kind = 0;
    std::int32_t stage = 0;
    std::int32_t number = 0;

    friend bool operator==(const Fresh&, const Fresh&) = default;
  };
  /// The number that stands for the activations that F charges, used only in `Fresh`. There,
  /// MemoryCategory::activations stands for the activations that I recomputes.
  static constexpr std::size_t kKeptByForward = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t kind_of(MemoryCategory category) { return static_cast<std::size_t>(category); }

  StageAccount& account_of(std::int32_t stage) {
    return *std::ranges::find(stages_, stage, &StageAccount::stage);
  }
  Charged charged(const Fresh& what, Ns now_ns) const;
  void note_fresh(const Fresh& what, Ns now_ns);

  void charge_transient(const PlacedAction& placed, Bytes bytes);
  void release_transient(const PlacedAction& placed, Bytes bytes);
  void forward(const PlacedAction& placed);
  void recompute(const PlacedAction& placed);
  void release_activations(const PlacedAction& placed);
  void open_gradients(StageAccount& stage, const PlacedAction& placed);
  void close_gradients(StageAccount& stage, const PlacedAction& placed);
  void drop_old_version(StageAccount& stage, const PlacedAction& placed);
  void replace_version(StageAccount& stage, const PlacedAction& placed, bool is_used_later);

  template <class LaterForwards>
  void backward(StageAccount& stage, const PlacedAction& placed, const LaterForwards& later) {
    release_activations(placed);
    if (!makes_weight_gradient(placed.action.kind)) return;
    const std::int32_t version = placed.action.weight_version;
    if (!later.keep_old_versions()) return;
    stage.versions.backward(version);
    if (version == stage.versions.newest() || stage.versions.is_open(version)) return;
    if (!later.next_has(stage.stage, version)) drop_old_version(stage, placed);
  }

  template <class LaterForwards>
  void step(StageAccount& stage, const PlacedAction& placed, const LaterForwards& later) {
    close_gradients(stage, placed);
    const std::int32_t version = stage.versions.newest();
    const bool is_used_later = later.keep_old_versions() &&
                               (stage.versions.is_open(version) || later.some_has(stage.stage, version));
    replace_version(stage, placed, is_used_later);
  }

  TellingOrder order_;
  std::vector<StageAccount> stages_;
  HeldAmounts held_;
  Ns instant_ns_ = 0;
  std::vector<Fresh> fresh_;  // amounts charged at instant_ns_; empty if changes arrive in order
};

}  // namespace penstock
