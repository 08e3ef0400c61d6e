#pragma once
// What one rank holds while it is followed in order of its list, and the peaks of that: the rule of
// report/timeline/holdings.hpp for a walk that stores nothing. Used by rank_ledger.hpp.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "report/print/memory_category.hpp"
#include "report/result/result.hpp"
#include "schedules/ir/action.hpp"
#include "sim/engines/kept_state.hpp"

namespace penstock {

/// Whether changes are told in the order in which peaks count them.
enum class TellingOrder : std::uint8_t {
  in_order,  // they are
  delayed,   // they are not: each waits until none can come before it
};

/// When what is released now was charged.
enum class Charged : std::uint8_t { earlier, at_this_instant };
constexpr Charged charged_at(Ns since_ns, Ns now_ns) {
  return since_ns == now_ns ? Charged::at_this_instant : Charged::earlier;
}

/// Amounts of several kinds. The first kMemoryCategoryCount are memory and add up; others are counted alone.
class HeldAmounts {
 public:
  HeldAmounts(std::size_t kinds, TellingOrder order)
      : order_(order), further_(kinds > kFirst ? kinds - kFirst : 0) {}

  /// The action at that place of the rank's list charges an amount.
  void charge(std::size_t kind, std::int64_t amount, Ns time_ns, std::int64_t position, const Action& by) {
    if (amount == 0) return;
    if (order_ == TellingOrder::in_order) add(kind, amount);
    if (order_ == TellingOrder::in_order && total_ <= peak_total_) return;  // mostly
    note({.time_ns = time_ns,
          .phase = 1,
          .order = 1,
          .position = position,
          .kind = kind,
          .amount = amount,
          .by = by});
  }
  /// The action there releases what an action before it has charged.
  void release(std::size_t kind, std::int64_t amount, Ns time_ns, std::int64_t position, Charged charged) {
    release_in_order(kind, amount, time_ns, position, charged, 0);
  }
  /// The action there releases what it has charged itself.
  void release_own(std::size_t kind, std::int64_t amount, Ns time_ns, std::int64_t position,
                   Charged charged) {
    release_in_order(kind, amount, time_ns, position, charged, 2);
  }
  /// Is there before the first action and stays.
  void hold_for_ever(std::size_t kind, std::int64_t amount) {
    if (amount != 0) apply({.phase = 1, .order = 1, .position = -1, .kind = kind, .amount = amount});
  }

  /// True when so many changes wait that it is time to settle.
  bool is_full() const { return waiting_.size() >= most_waiting_; }
  /// No change will be told any more that is before this time.
  void settle(Ns before_ns);

  std::int64_t peak(std::size_t kind) const {
    return (kind < kFirst ? first_[kind] : further_[kind - kFirst]).peak;
  }
  /// Requires that all has been settled.
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
    std::int32_t phase = 0;  ///< 0: release of something charged at an earlier instant
    std::int32_t order = 0;  ///< at one position: release of earlier ones, charge, release of its own
    std::int64_t position = 0;
    std::size_t kind = 0;
    std::int64_t amount = 0;  ///< negative: released
    Action by{};              ///< of a charge
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
  /// A change that waits, or has raised the total above its peak.
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
  std::array<Amount, kFirst> first_{};  // by kind: what every rank has lies here
  std::vector<Amount> further_;         // by kind, from kFirst on
  std::int64_t total_ = 0;
  std::int64_t peak_total_ = 0;
  Change at_peak_;
  MemoryByCategory held_at_peak_{};
  std::vector<Change> waiting_;
  std::size_t most_waiting_ = kFewWaiting;
  static constexpr std::size_t kFewWaiting = 32;
};

}  // namespace penstock
