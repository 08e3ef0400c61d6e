#pragma once
// Follows a preferred order in one variant after the other (follow_order.cpp). The header begins with two
// parts that a run needs: the order in the form that a run reads (two numbers for each action), and the tails
// that say how long the order lasts after each action. Only schedules/ includes this header.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/search/follow_order.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

/// The data that all F of a stage have in common, or that all B or I of a stage have in common.
struct Track {
  static constexpr std::int32_t kNone = -1;

  ActionKind kind = ActionKind::forward;
  std::int32_t stage = 0;
  std::int32_t rank = 0;
  /// The track that uses this track's output, or kNone.
  std::int32_t next = kNone;
  /// The rank of the track `next`.
  std::int32_t next_rank = 0;
  Ns duration = 0;
  /// The time from the end of the action to the arrival of its output at the next track.
  Ns delay = 0;
  /// The duration of the W that belongs to an I.
  Ns weight_ns = 0;
  /// The memory that an F allocates.
  Bytes charged = 0;
  /// The memory that a B or I releases.
  Bytes released = 0;
  /// The memory that the W of an I releases.
  Bytes owed = 0;
};

/// An action of an order: its track, and its place, which is track * microbatches + microbatch.
struct Step {
  std::int32_t track = 0;
  std::int32_t place = 0;
};

/// A preferred order as steps, with its tracks.
struct OrderSteps {
  /// Requires that each stage has only B or only I.
  OrderSteps(const OrderCosts& costs, const PreferredOrder& order);

  const Track& track_of(const Step& step) const { return tracks[index(step.track)]; }
  /// Returns the place of the action that uses the step's output. Requires that the track has a next track.
  std::int32_t taker(const Step& step) const {
    return step.place + (track_of(step).next - step.track) * microbatches;
  }
  std::size_t place_count() const { return tracks.size() * index(microbatches); }
  /// Returns the action of a step with this kind. If the step is an I, `kind` can also be W.
  Action action(const Step& step, ActionKind kind) const {
    return {
        .kind = kind, .stage = track_of(step).stage, .microbatch = step.place - step.track * microbatches};
  }

  std::int32_t microbatches = 0;
  /// The tracks of all F by stage, then the tracks of all backwards by stage.
  std::vector<Track> tracks;
  /// The order of each rank.
  std::vector<std::vector<Step>> ranks;
  /// The total compute time of each rank.
  std::vector<Ns> busy_ns;
  /// The memory limit of each rank.
  std::vector<Bytes> limits;
};

// Computes the time from the start of each action to the end of the order. If the order no longer changes,
// the longest span is then known before the run ends. Tails are computed backwards from the ends of the
// lists:
//
//   tail = duration + max(tail of the rank's next action, delay + tail of the action that uses the output)
//
// After the last action of a rank, the first term is minus the rank's first start.

/// The tails of all actions of an order.
class OrderTails {
 public:
  /// The tail of an action if ranks wait for each other forever after it.
  static constexpr Ns kEndless = std::numeric_limits<Ns>::max();

  /// Computes the tails if the ranks start at `first_starts`. Requires whole backwards.
  OrderTails(const OrderSteps& order, std::vector<Ns> first_starts);

  const std::vector<Ns>& first_starts() const { return first_starts_; }
  /// Returns the tail of the action at a place (Step). If this action starts at time t, the longest span of
  /// the ranks that depend on it is t plus the tail.
  Ns after(std::int32_t place) const { return tails_[index(place)]; }

 private:
  std::vector<Ns> first_starts_;
  std::vector<Ns> tails_;
};

/// A run that follows a preferred order. A free rank considers the next action of its order and the
/// `look_ahead` actions after it. It runs the first of these actions that fits into memory and has received
/// its input. If there is none, it runs a W:
///
///   order   F0 F1 F2 B0 F3 B1 F4        B0 is next, but its input has not arrived. With a look-ahead
///   taken   F0 F1 F2 F3 B0 ...          of one the rank takes F3, and B0 stays next. The order is changed
///                                       up to F3, where it is "bent".
class OrderFollower {
 public:
  /// Requires that each stage has only B or only I.
  OrderFollower(const OrderCosts& costs, const PreferredOrder& order);

  /// Returns the longest span of a rank for the first variant. Returns nothing if the span is not below
  /// `limit`, or if ranks wait for each other forever. The latter is impossible without look-ahead if the
  /// order fits into memory.
  std::optional<Ns> run(const std::vector<FollowOptions>& variants, Ns limit);
  /// Returns the variants of the last run for which the result is not known, because they would have made
  /// other decisions.
  std::vector<FollowOptions> other_variants() const;
  /// Returns the lists of the last run. Requires that this run returned a span.
  std::vector<std::vector<Action>> lists() const;
  /// Returns the work of the busiest rank. No span is shorter.
  Ns busiest_ns() const { return order_.busy_ns.empty() ? 0 : std::ranges::max(order_.busy_ns); }
  /// Returns true if the last run continued to its end. It may stop earlier, when its span is known.
  bool has_finished() const { return has_finished_; }

 private:
  struct Rank {
    std::vector<Step> order;   // the preferred order with all changes so far
    std::vector<Step> list;    // the actions that have run; a W is the step of its I with a negative track
    std::vector<Step> inputs;  // the I actions in `list`; from index `weights` on, their Ws have not run
    std::size_t next = 0;      // the index of the next action in `order`
    std::size_t bent = 0;      // the index from which `order` is unchanged
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
  /// The messages that a track receives from another track. They arrive in the order of microbatches, because
  /// the sender runs them in this order.
  struct Inbox {
    std::int32_t giver = 0;
    std::int32_t first_place = 0;  // the place of microbatch 0 of the receiving track
    std::int32_t seen = 0;         // the number of messages that had arrived when the rank last slept
  };
  /// The actions that a rank finds when it looks for work.
  struct Sight {
    std::size_t ready = kNothing;  // the index of the action in the rank's order
    Ns next_arrival = WakeTimes::kNever;
    bool needs_memory = false;  // true if an F could run after the owed Ws
  };
  static constexpr std::size_t kNothing = static_cast<std::size_t>(-1);

  void reset(const std::vector<FollowOptions>& variants);
  void forget_arrivals();
  void reset(std::int32_t rank);
  /// Lets the rank look for work. It runs an action, or sleeps until the next message.
  void act(std::int32_t rank, Ns now);
  Sight look(std::int32_t rank, Ns now) const;
  void look_farther(const Rank& rank, Bytes limit, Ns now);
  /// Returns true if this variant would have found the same actions so far. Requires that the variant has
  /// made the same decisions about Ws.
  bool sees_as_much(const FollowOptions& variant) const;
  /// Returns true if the oldest owed W runs in the gap. Also records the variants that would decide
  /// differently. An owed W is a W that has not run although its I has run.
  bool weight_suits(const Rank& rank, Ns gap);
  bool suits(const FollowOptions& variant, const Rank& rank, Ns gap) const;
  /// Runs the action at index `at` of the rank's order.
  void take(std::int32_t rank, std::size_t at, Ns now);
  void place_weight(std::int32_t rank, Ns now);
  /// Makes the rank busy for `duration`, from `now` on.
  void start(std::int32_t rank, Ns now, Ns duration);
  /// Wakes the rank when a message arrives, unless it is busy then.
  void announce(std::int32_t rank, Ns arrival);
  /// Lets the rank wait for the next message that arrives after `now`.
  void sleep(std::int32_t rank, Ns now);
  /// Runs to the end. Returns the longest span, or nothing if ranks wait for each other forever.
  std::optional<Ns> finish();
  /// Returns the longest span, computed from the ends of running actions and the tails of the next actions.
  std::optional<Ns> span_in_sight();

  OrderSteps order_;
  bool order_gets_fixed_ =
      false;  // true if only the look-ahead before the first backward can change the order
  std::optional<OrderTails> tails_;
  std::vector<Rank> ranks_;
  std::vector<std::int32_t> done_;           // by track: the number of microbatches that have run
  std::vector<Ns> arrivals_;                 // by place: the arrival time of the input
  std::vector<std::vector<Inbox>> inboxes_;  // by rank
  WakeTimes wakings_;
  Ns most_idle_ = 0;
  Ns least_span_ = 0;  // a lower bound on the longest span so far
  std::int32_t unfixed_ranks_ = 0;
  bool has_finished_ = false;
  // If order_gets_fixed_ is true, every warm-up look-ahead up to this value gives the same result.
  std::int32_t same_ahead_ = 0;
  FollowOptions variant_;  // the first entry of variants_
  std::vector<FollowOptions> variants_;
  std::vector<bool> differs_;       // by variant: true if it would have decided differently about a W
  std::vector<std::size_t> alike_;  // the other variants that have made the same decisions so far
};

}  // namespace penstock
