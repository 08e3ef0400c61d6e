#pragma once
// An order in the form that runs along it read (order_follower.hpp, order_tails.hpp): two numbers for each
// action, and what the actions of one kind and stage have in common. Only schedules/ includes this header.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/search/follow_order.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

/// All F, or all B or I, of a stage.
struct Track {
  static constexpr std::int32_t kNone = -1;

  ActionKind kind = ActionKind::forward;
  std::int32_t stage = 0;
  std::int32_t rank = 0;
  /// The track that uses the output.
  std::int32_t next = kNone;
  /// The rank of that track.
  std::int32_t next_rank = 0;
  Ns duration = 0;
  /// The time that the output takes to reach the next track.
  Ns delay = 0;
  /// The duration of the W of an I.
  Ns weight_ns = 0;
  /// The memory that an F takes.
  Bytes charged = 0;
  /// The memory that a B or I releases.
  Bytes released = 0;
  /// The memory that the W of an I releases.
  Bytes owed = 0;
};

/// An action: its track and its place, which is track * microbatches + microbatch.
struct Step {
  std::int32_t track = 0;
  std::int32_t place = 0;
};

/// An order as steps, with its tracks.
struct OrderSteps {
  /// Requires one kind of backward a stage.
  OrderSteps(const OrderCosts& costs, const PreferredOrder& order);

  const Track& track_of(const Step& step) const { return tracks[index(step.track)]; }
  /// Returns the place of the action that uses the step's output. Requires a next track.
  std::int32_t taker(const Step& step) const {
    return step.place + (track_of(step).next - step.track) * microbatches;
  }
  std::size_t place_count() const { return tracks.size() * index(microbatches); }
  /// Returns the action of a step, or the W of an I.
  Action action(const Step& step, ActionKind kind) const {
    return {
        .kind = kind, .stage = track_of(step).stage, .microbatch = step.place - step.track * microbatches};
  }

  std::int32_t microbatches = 0;
  /// The tracks of F by stage, then those of the backwards.
  std::vector<Track> tracks;
  /// The order, by rank.
  std::vector<std::vector<Step>> ranks;
  /// The duration of everything that each rank computes.
  std::vector<Ns> busy_ns;
  /// The memory limit of each rank.
  std::vector<Bytes> limits;
};

}  // namespace penstock
