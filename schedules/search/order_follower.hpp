#pragma once
// Follows a given order in one variant after the other (follow_order.cpp). Only schedules/ includes this
// header.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/search/follow_order.hpp"
#include "schedules/search/order_steps.hpp"
#include "schedules/search/order_tails.hpp"
#include "schedules/search/timed_lists.hpp"
#include "schedules/search/wake_times.hpp"

namespace penstock {

/// A run along a given order. A free rank takes the first action in sight whose input has arrived and which
/// fits into its memory; otherwise it takes a W. In sight are the next action of its order and `look_ahead`
/// actions after it:
///
///   order   F0 F1 F2 B0 F3 B1 F4        B0 is next, but its input has not arrived. With a look-ahead
///   taken   F0 F1 F2 F3 B0 ...          of one the rank takes F3, and B0 stays next. The order is changed
///                                       up to F3, where it is "bent".
class OrderFollower {
 public:
  /// Requires one kind of backward a stage.
  OrderFollower(const OrderCosts& costs, const PreferredOrder& order);

  /// Returns the longest span of a rank if the order is followed in the first of `variants`. Returns nothing
  /// if it is not below `limit`, or if ranks wait for each other forever. The latter cannot happen without
  /// look-ahead if the order itself fits into memory.
  std::optional<Ns> run(const std::vector<FollowOptions>& variants, Ns limit);
  /// Returns those of the last run's `variants` that give other lists.
  std::vector<FollowOptions> other_variants() const;
  /// Returns the lists of the last run, which must have returned a span.
  std::vector<std::vector<Action>> lists() const;
  /// Returns true if the last run continued to its end, instead of stopping when its span was known.
  bool has_finished() const { return has_finished_; }

 private:
  struct Rank {
    std::vector<Step> order;   // the preferred order, as changed so far
    std::vector<Step> list;    // the actions that have run; a W is the step of its I with a negative track
    std::vector<Step> inputs;  // the I of the list, whose Ws are owed from `weights` on
    std::vector<Ns> arrivals;  // a heap: arrivals of messages that come while the rank is not busy
    std::size_t next = 0;      // in order
    std::size_t bent = 0;      // the order is unchanged from here on
    std::size_t weights = 0;
    bool warm = true;
    bool has_started = false;
    Ns first_start = 0;
    Ns free_at = 0;
    Ns idle = 0;
    Bytes kept = 0;
    Bytes owed = 0;

    bool owes_weight() const { return weights < inputs.size(); }
    bool is_fixed() const { return !warm && next >= bent; }
  };
  /// The work that a rank finds when it looks for some.
  struct Sight {
    std::size_t ready = kNothing;  // index in its order
    Ns next_arrival = WakeTimes::kNever;
    bool needs_memory = false;  // an F could run if the owed Ws had run
  };
  static constexpr std::size_t kNothing = static_cast<std::size_t>(-1);

  void reset(const std::vector<FollowOptions>& variants);
  void forget_arrivals();
  void reset(std::int32_t rank);
  /// Lets the rank look for work: it runs an action, or sleeps until the next message.
  void act(std::int32_t rank, Ns now);
  Sight look(std::int32_t rank, Ns now) const;
  void look_farther(const Rank& rank, Bytes limit, Ns now);
  /// Returns true if a variant that has decided equally so far would have had the same actions in sight.
  bool sees_as_much(const FollowOptions& variant) const;
  /// Returns true if the oldest owed W goes into the gap. Notes which other variants would decide
  /// differently.
  bool weight_suits(const Rank& rank, Ns gap);
  bool suits(const FollowOptions& variant, const Rank& rank, Ns gap) const;
  /// Runs the action at that index of the rank's order.
  void take(std::int32_t rank, std::size_t at, Ns now);
  void place_weight(std::int32_t rank, Ns now);
  /// Makes the rank busy from `now` on for `duration`.
  void start(std::int32_t rank, Ns now, Ns duration);
  /// Records that a message will arrive at the rank.
  void announce(std::int32_t rank, Ns arrival);
  void sleep(std::int32_t rank, Ns now);
  /// Runs to the end. Returns the longest span, or nothing if ranks wait for each other forever.
  std::optional<Ns> finish();
  /// Returns the longest span, computed from the running actions and the tails of the others.
  std::optional<Ns> span_in_sight();

  OrderSteps order_;
  bool order_gets_fixed_ = false;  // only the look-ahead before the first backward can change the order
  std::optional<OrderTails> tails_;
  std::vector<Rank> ranks_;
  std::vector<std::int32_t> done_;  // by track: the microbatches that have run
  std::vector<Ns> arrivals_;        // by place: when the input arrives
  WakeTimes wakings_;
  Ns most_idle_ = 0;
  Ns least_span_ = 0;  // the longest span is at least this
  std::int32_t unfixed_ranks_ = 0;
  bool has_finished_ = false;
  // If the order gets fixed, every look-ahead in the warm-up up to this one gives the same result.
  std::int32_t same_ahead_ = 0;
  FollowOptions variant_;  // the first of variants_
  std::vector<FollowOptions> variants_;
  std::vector<bool> differs_;       // by variant: true if it would have placed a W differently
  std::vector<std::size_t> alike_;  // variants other than the first one that have decided equally so far
};

}  // namespace penstock
