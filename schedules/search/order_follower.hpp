#pragma once
// List scheduling that follows a given order of forwards and backwards. All schedules on a V use it
// (v_placement.cpp). Only schedules/ includes this header.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

/// The preferred order of the F and of the B or I actions (gradient of the input) on each rank.
using PreferredOrder = std::vector<std::vector<Action>>;

/// The time slots in which a rank starts its four actions of microbatch 0, if the stages are placed in a V.
/// The actions are the F of the chunk on the way down, the F of the chunk on the way up, and their backward
/// passes. Each following microbatch starts six slots later.
struct BlockSlots {
  std::int64_t forward_down = 0;
  std::int64_t forward_up = 0;
  std::int64_t backward_up = 0;
  std::int64_t backward_down = 0;
};

/// Returns the building blocks of the schedules V-Half or V-Min (v_placement.cpp), one for each rank.
std::vector<BlockSlots> v_half_block(std::int32_t ranks);
std::vector<BlockSlots> v_min_block(std::int32_t ranks);

/// Returns the order in which a building block is repeated every six slots (Qi et al., "Pipeline
/// Parallelism with Controllable Memory", NeurIPS'24, section 3). `backward` is the kind of all backward
/// passes: B, or I (gradient of the input).
PreferredOrder repeated_block(const std::vector<BlockSlots>& slots, std::int32_t microbatches,
                              ActionKind backward);

/// Options that say how far a rank may deviate from the preferred order.
struct FollowOptions {
  /// The number of further actions that a rank considers if the next action of its order cannot run.
  std::int32_t look_ahead = 0;
  /// The number that replaces `look_ahead` before the rank's first backward pass.
  std::int32_t warm_up_look_ahead = 0;
  /// The shortest pause that a rank fills with a W (gradient of the weights), in quarters of the W's
  /// duration.
  std::int32_t weight_quarters = 4;
  /// True if a W may also run in a shorter pause, if this pause would otherwise become the longest one of
  /// all ranks.
  bool overrun = false;

  friend bool operator==(const FollowOptions&, const FollowOptions&) = default;
};

/// A preferred order, and the options (FollowOptions) with which it is tried.
struct OrderChoice {
  PreferredOrder order;
  std::vector<FollowOptions> options;
};

/// Returns `program` with the lists of the best variant, without STEPs. A variant is an order of `choices`
/// with one of its options. The best one has the smallest value of the longest span of a rank. squeeze()
/// then improves its lists. Requires a program with empty lists. In at least one variant, ranks must not
/// wait for each other forever.
Program best_followed(Program program, const OrderCosts& costs, const std::vector<OrderChoice>& choices);

/// Returns the lists of the best variant, which is an order of `choices` with one of its options. Returns
/// nothing if ranks wait for each other forever in every variant. Also returns nothing if the longest span
/// of a rank is above `longest` in all variants before squeeze().
std::optional<std::vector<std::vector<Action>>> best_followed(const OrderCosts& costs,
                                                              const std::vector<OrderChoice>& choices,
                                                              Ns longest);

/// Returns the options for orders with separate I (gradient of the input) and W (gradient of the weights).
std::vector<FollowOptions> options_with_weights();

// Runs a preferred order in one variant after the other; follow_order.cpp chooses between the variants.
// The header begins with two parts that a run needs. The first is the order in the form that a run reads
// (two numbers for each action). The second is the tails, which say how long the order lasts after each
// action. Only schedules/ includes this header.

/// The common data of all F of one stage, or of all its B or I actions (gradient of the input).
struct Track {
  static constexpr std::int32_t kNone = -1;

  ActionKind kind = ActionKind::forward;
  std::int32_t stage = 0;
  std::int32_t rank = 0;
  /// The track of the actions that use the output of this track, or kNone.
  std::int32_t next = kNone;
  /// The rank that runs the track `next`.
  std::int32_t next_rank = 0;
  Ns duration = 0;
  /// The time from the end of an action to the arrival of its output on the rank of the next track.
  Ns delay = 0;
  /// The duration of the W (gradient of the weights) that belongs to an I.
  Ns weight_ns = 0;
  /// The bytes of memory that an F allocates.
  Bytes charged = 0;
  /// The bytes of memory that a B or I releases.
  Bytes released = 0;
  /// The bytes of memory that the W after an I releases.
  Bytes owed = 0;
};

/// One action of an order. `track` is its track, and `place` is the number track * microbatches +
/// microbatch.
struct Step {
  std::int32_t track = 0;
  std::int32_t place = 0;
};

/// A preferred order in which the actions are written as steps, with the tracks of these steps.
struct OrderSteps {
  /// Translates the order into steps. Requires that each stage has only B or only I as backward passes.
  OrderSteps(const OrderCosts& costs, const PreferredOrder& order);

  const Track& track_of(const Step& step) const { return tracks[index(step.track)]; }
  /// Returns the place of the action that uses the output of the step. Requires that the step's track has a
  /// next track.
  std::int32_t taker(const Step& step) const {
    return step.place + (track_of(step).next - step.track) * microbatches;
  }
  std::size_t place_count() const { return tracks.size() * index(microbatches); }
  /// Returns the action of the step. `kind` is the kind of the step's track, or W if this kind is I.
  Action action(const Step& step, ActionKind kind) const {
    return {
        .kind = kind, .stage = track_of(step).stage, .microbatch = step.place - step.track * microbatches};
  }

  std::int32_t microbatches = 0;
  /// The tracks: first those of all F in the order of stages, then those of all backward passes in the
  /// order of stages.
  std::vector<Track> tracks;
  /// The steps of each rank in the preferred order.
  std::vector<std::vector<Step>> ranks;
  /// The total compute time of each rank, in ns.
  std::vector<Ns> busy_ns;
  /// The memory limit of each rank, in bytes.
  std::vector<Bytes> limits;
};

// Computes the time from the start of each action to the end of the order. If the order no longer changes,
// the longest span is then known before the run ends. Tails are computed backwards from the ends of the
// lists:
//
//   tail = duration + max(tail of the rank's next action, delay + tail of the action that uses the output)
//
// After the last action of a rank, the first term is minus the rank's first start.

/// The tails of all actions of an order. The tail of an action is added to its start time to get the
/// longest span that follows from it (see after()).
class OrderTails {
 public:
  /// The tail of an action after which ranks wait for each other forever.
  static constexpr Ns kEndless = std::numeric_limits<Ns>::max();

  /// Computes the tails if the ranks start their first actions at `first_starts`. Requires an order with B,
  /// not with I (gradient of the input).
  OrderTails(const OrderSteps& order, std::vector<Ns> first_starts);

  const std::vector<Ns>& first_starts() const { return first_starts_; }
  /// Returns the tail of the action at a place (Step::place). If this action starts at time t, t plus the
  /// tail is the longest span of the ranks that depend on this action.
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
///
/// In the middle of a long run, the ranks usually do the same for each microbatch, or for every second one.
/// A run recognizes such a repetition and jumps over it, with the result of a run without the jump.
class OrderFollower {
 public:
  /// Prepares runs with this order. Requires that each stage has only B or only I as backward passes.
  OrderFollower(const OrderCosts& costs, const PreferredOrder& order);

  /// Runs the first variant and returns the longest span of a rank. Returns nothing if the span is not
  /// below `limit`, or if ranks wait for each other forever. Without look-ahead, they cannot wait forever
  /// if the order fits into memory.
  std::optional<Ns> run(const std::vector<FollowOptions>& variants, Ns limit);
  /// Returns the variants of the last run that would have made other decisions than the first variant.
  /// Their spans are therefore not known.
  std::vector<FollowOptions> other_variants() const;
  /// Returns the lists of the last run. Requires that this run returned a span.
  std::vector<std::vector<Action>> lists() const;
  /// Returns the work of the busiest rank. No span is shorter.
  Ns busiest_ns() const { return order_.busy_ns.empty() ? 0 : std::ranges::max(order_.busy_ns); }
  /// Returns true if the last run continued until all actions were placed. A run may stop earlier, when its
  /// longest span is known.
  bool has_finished() const { return has_finished_; }
  /// Returns the number of microbatches that the last run jumped over.
  std::int32_t skipped_microbatches() const { return skipped_; }

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
  /// The state of a rank at an earlier moment of the run. The indices have the meaning of those in Rank.
  struct RankThen {
    std::vector<Step> bent_steps;  // the steps of `order` from `next` on that may have changed places
    std::size_t next = 0;
    std::size_t list_size = 0;
    std::size_t inputs_size = 0;
    std::size_t weights = 0;
    Ns free_at = 0;
    Ns wakes_at = 0;
    Ns idle = 0;
    Bytes kept = 0;
    Bytes owed = 0;
  };
  /// The state of the run at an earlier moment. If the state is the same again, but for later times and
  /// microbatches, the run repeats what it did in between.
  struct Moment {
    Ns time = 0;
    std::vector<RankThen> ranks;
    std::vector<std::int32_t> done;  // number of microbatches of each track that have run
  };
  /// The messages that a track receives from another track. They arrive in the order of microbatches,
  /// because the sender runs its actions in this order.
  struct Inbox {
    std::int32_t giver = 0;
    std::int32_t first_place = 0;  // the place of microbatch 0 of the receiving track
    std::int32_t seen = 0;         // the number of messages that had arrived when the rank last slept
  };
  /// The actions that a rank finds when it looks for an action to run.
  struct Sight {
    std::size_t ready = kNothing;  // the index of the action in the rank's order
    Ns next_arrival = WakeTimes::kNever;
    bool needs_memory = false;  // true if an F could run after the owed Ws
  };
  static constexpr std::size_t kNothing = static_cast<std::size_t>(-1);

  void reset(const std::vector<FollowOptions>& variants);
  void forget_arrivals();
  void reset(std::int32_t rank);
  /// Lets the rank look for an action at time `now`. The rank runs an action, or sleeps until the next
  /// message.
  void act(std::int32_t rank, Ns now);
  Sight look(std::int32_t rank, Ns now) const;
  void look_farther(const Rank& rank, Bytes limit, Ns now);
  /// Returns true if a run with this variant would have found the same actions so far. Requires that it has
  /// made the same decisions about W actions (gradient of the weights).
  bool sees_as_much(const FollowOptions& variant) const;
  /// Returns true if the rank's oldest owed W runs in a pause of length `gap`. An owed W is a W (gradient
  /// of the weights) that has not run although its I has run. Also records the variants that would decide
  /// differently.
  bool weight_suits(const Rank& rank, Ns gap);
  bool suits(const FollowOptions& variant, const Rank& rank, Ns gap);
  /// Runs the action at index `at` of the rank's order, from `now` on.
  void take(std::int32_t rank, std::size_t at, Ns now);
  void place_weight(std::int32_t rank, Ns now);
  /// Makes the rank busy for `duration`, from `now` on.
  void start(std::int32_t rank, Ns now, Ns duration);
  /// Wakes the rank when a message arrives at `arrival`, unless the rank is busy at that time.
  void announce(std::int32_t rank, Ns arrival);
  /// Lets the rank wait for the next message that arrives after `now`.
  void sleep(std::int32_t rank, Ns now);
  /// Jumps over a repetition if the state at time `now` repeats the remembered one.
  void watch_for_repetition(Ns now);
  void remember(Ns now);
  bool is_repetition(Ns now) const;
  bool repeats_rank(const Rank& rank, const RankThen& then, std::int32_t period) const;
  bool repeats_messages(std::int32_t giver, Ns later, std::int32_t period) const;
  /// Returns how often all ranks can repeat the steps since the remembered moment before an order ends.
  std::int32_t possible_repetitions(std::int32_t period) const;
  void jump(std::int32_t period, Ns duration, std::int32_t times);
  /// Completes the run. Returns the longest span of a rank, or nothing if ranks wait for each other
  /// forever.
  std::optional<Ns> finish();
  /// Returns the longest span of a rank before the run ends. It is computed from the ends of the running
  /// actions and the tails of the actions after them.
  std::optional<Ns> span_in_sight();

  OrderSteps order_;
  // True if only the look-ahead before the first backward can change the order.
  bool order_gets_fixed_ = false;
  std::optional<OrderTails> tails_;
  std::vector<Rank> ranks_;
  std::vector<std::int32_t> done_;           // number of microbatches of each track that have run
  std::vector<Ns> arrivals_;                 // arrival time of the input of each action, by Step::place
  std::vector<std::vector<Inbox>> inboxes_;  // inboxes of each rank
  WakeTimes wakings_;
  Ns most_idle_ = 0;
  Ns least_span_ = 0;  // a lower bound on the longest span so far
  std::int32_t unfixed_ranks_ = 0;
  bool has_finished_ = false;
  Moment remembered_;
  std::int32_t next_remembered_ = 0;  // the microbatch after which the next moment is remembered
  std::int32_t watched_ = 0;          // the last microbatch after which the state was compared
  // True if a decision since the remembered moment compared the pauses of ranks. Such a decision may differ
  // in a repetition, because the pauses add up.
  bool has_compared_idle_ = false;
  std::int32_t skipped_ = 0;
  // If order_gets_fixed_ is true, every warm-up look-ahead up to this value gives the same result.
  std::int32_t same_ahead_ = 0;
  FollowOptions variant_;  // the variant that is followed: the first entry of variants_
  std::vector<FollowOptions> variants_;
  std::vector<bool> differs_;       // true for each variant that would have decided differently about a W
  std::vector<std::size_t> alike_;  // the other variants that have made the same decisions so far
};

}  // namespace penstock
