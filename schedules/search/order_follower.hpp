#pragma once
// Runs along a given order, one way of following it after the other (follow_order.cpp). Private to
// schedules/.

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

/// A rank that is free takes the first action in sight whose input is there and which fits into its memory;
/// failing that, a W. In sight are the next one of its order and so many behind it:
///
///   order   F0 F1 F2 B0 F3 B1 F4        B0 is next and its input not there; looking one ahead the rank takes
///   taken   F0 F1 F2 F3 B0 ...          F3, and B0 stays next: the order is "bent" up to behind F3
class OrderFollower {
 public:
  /// Requires one kind of backward a stage.
  OrderFollower(const OrderCosts& costs, const PreferredOrder& order);

  /// The longest span of a rank when the order is followed as the first of `ways` says. Nothing when that is
  /// not below `limit`, or when the order jams, which cannot happen without looking ahead if the order itself
  /// fits into memory.
  std::optional<Ns> run(const std::vector<FollowOptions>& ways, Ns limit);
  /// Those of the last run's `ways` that come to other lists.
  std::vector<FollowOptions> other_ways() const;
  /// Of the last run, which must have come to a span.
  std::vector<std::vector<Action>> lists() const;
  /// Whether the last run went on to its end, and not just until its span was known.
  bool has_finished() const { return has_finished_; }

 private:
  struct Rank {
    std::vector<Step> order;   // as preferred
    std::vector<Step> list;    // as done; a W is the step of its I with a negative track
    std::vector<Step> inputs;  // the I of the list, whose W are owed from `weights` on
    std::vector<Ns> arrivals;  // of messages that come while the rank is not busy: a heap
    std::size_t next = 0;      // in order
    std::size_t bent = 0;      // where the order has not been changed from
    std::size_t weights = 0;
    bool warm = true;
    bool has_started = false;
    Ns first_start = 0;
    Ns free_at = 0;
    Ns idle = 0;
    Bytes kept = 0;
    Bytes owed = 0;

    bool owes_weight() const { return weights < inputs.size(); }
    bool is_settled() const { return !warm && next >= bent; }
  };
  /// What a rank sees when it looks for work.
  struct Sight {
    std::size_t ready = kNothing;  // in its order
    Ns next_arrival = WakeTimes::kNever;
    bool needs_memory = false;  // an F could run if the owed W had
  };
  static constexpr std::size_t kNothing = static_cast<std::size_t>(-1);

  void reset(const std::vector<FollowOptions>& ways);
  void forget_arrivals();
  void reset(std::int32_t rank);
  /// The rank looks for work: it runs something, or sleeps until the next message.
  void act(std::int32_t rank, Ns now);
  Sight look(std::int32_t rank, Ns now) const;
  void look_farther(const Rank& rank, Bytes limit, Ns now);
  /// Whether a way that has decided alike so far would have had the same actions in sight.
  bool sees_as_much(const FollowOptions& way) const;
  /// Whether the oldest owed W goes into the gap; notes which of the other ways would decide otherwise.
  bool weight_suits(const Rank& rank, Ns gap);
  bool suits(const FollowOptions& way, const Rank& rank, Ns gap) const;
  /// Runs the action at that place of the rank's order.
  void take(std::int32_t rank, std::size_t at, Ns now);
  void place_weight(std::int32_t rank, Ns now);
  /// The rank is busy from `now` on, for so long.
  void start(std::int32_t rank, Ns now, Ns duration);
  /// A message will come to the rank then.
  void tell(std::int32_t rank, Ns arrival);
  void sleep(std::int32_t rank, Ns now);
  /// Runs to the end; nothing where the order jams.
  std::optional<Ns> finish();
  /// The longest span, from what is under way and the tails of what is not.
  std::optional<Ns> span_in_sight();

  OrderSteps order_;
  bool settles_ = false;  // nothing but looking ahead before the first backward changes the order
  std::optional<OrderTails> tails_;
  std::vector<Rank> ranks_;
  std::vector<std::int32_t> done_;  // by track
  std::vector<Ns> arrivals_;        // of the input, by place
  WakeTimes wakings_;
  Ns most_idle_ = 0;
  Ns least_span_ = 0;  // the longest span is at least this
  std::int32_t unsettled_ = 0;
  bool has_finished_ = false;
  std::int32_t same_ahead_ =
      0;               // where the order settles: looking ahead so far in the warm-up makes no difference
  FollowOptions way_;  // the first of ways_
  std::vector<FollowOptions> ways_;
  std::vector<bool> differs_;       // by way: it would have placed a W otherwise
  std::vector<std::size_t> alike_;  // ways behind the first one that have not yet
};

}  // namespace penstock
