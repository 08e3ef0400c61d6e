#pragma once
// An order as the runs along it read it (order_follower.hpp, order_tails.hpp): two numbers an action, and
// what the actions of one kind and stage have in common. Private to schedules/.

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
  std::int32_t next = kNone;   ///< the track that takes the output
  std::int32_t next_rank = 0;  ///< and its rank
  Ns duration = 0;
  Ns delay = 0;        ///< of the output
  Ns weight_ns = 0;    ///< I: duration of its W
  Bytes charged = 0;   ///< F
  Bytes released = 0;  ///< B, I
  Bytes owed = 0;      ///< I: what its W releases
};

/// An action: its track and its place, which is track * microbatches + microbatch.
struct Step {
  std::int32_t track = 0;
  std::int32_t place = 0;
};

struct OrderSteps {
  /// Requires one kind of backward a stage.
  OrderSteps(const OrderCosts& costs, const PreferredOrder& order);

  const Track& track_of(const Step& step) const { return tracks[index(step.track)]; }
  /// The place of what takes the step's output. Requires a next track.
  std::int32_t taker(const Step& step) const {
    return step.place + (track_of(step).next - step.track) * microbatches;
  }
  std::size_t place_count() const { return tracks.size() * index(microbatches); }
  /// Of a step's action, or of the W of an I.
  Action action(const Step& step, ActionKind kind) const {
    return {
        .kind = kind, .stage = track_of(step).stage, .microbatch = step.place - step.track * microbatches};
  }

  std::int32_t microbatches = 0;
  std::vector<Track> tracks;             ///< those of F by stage, then those of the backwards
  std::vector<std::vector<Step>> ranks;  ///< the order
  std::vector<Ns> busy_ns;               ///< by rank: all that it computes
  std::vector<Bytes> limits;             ///< by rank
};

}  // namespace penstock
