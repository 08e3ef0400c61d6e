#pragma once
// What each compute action and message of a flat program costs on a cluster. Both engines start from it.

#include <cstdint>
#include <vector>

#include "scenarios/experiment.hpp"
#include "schedules/flat_program.hpp"
#include "schedules/rendezvous_walk.hpp"
#include "topology/collective.hpp"

namespace penstock {

/// Durations of all compute actions, and of all messages when nothing is shared: a transfer holds its
/// channel for the serialization of its bytes over its route and arrives after the route's latency; a
/// collective takes ring_cost() of its stage's ranks.
WalkDurations walk_durations(const Experiment& experiment, const FlatProgram& flat);

/// The collective of a stage's REDUCE_GRAD or UNSHARD, and the bytes of its buffer.
struct CollectiveShape {
  Collective algorithm = Collective::all_reduce;
  Bytes bytes = 0;
};
CollectiveShape collective_shape(const Experiment& experiment, const Action& action);

/// The ring's cost of a collective action over the ranks of its stage.
RingCost collective_cost(const Experiment& experiment, const Action& action);

}  // namespace penstock
