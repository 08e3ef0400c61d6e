#pragma once
// Stores an order in a compact form for order_follower.hpp and order_tails.hpp: two numbers for each action,
// and the common data of all actions with the same kind and stage. Only schedules/ includes this header.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/search/follow_order.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

/// The common data of all F, or of all B or I, of a stage.
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

/// An order as steps, and its tracks.
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

}  // namespace penstock
