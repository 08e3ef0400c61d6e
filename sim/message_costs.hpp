#pragma once
// What each compute action and message of a flat program costs on a cluster. Both engines start from it.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "scenarios/experiment.hpp"
#include "schedules/flat_program.hpp"
#include "schedules/rendezvous_walk.hpp"
#include "topology/cluster.hpp"
#include "topology/collective.hpp"

namespace penstock {

/// What a transfer between two ranks takes. Remembers the route and the last size of every pair.
class TransferPrices {
 public:
  /// The experiment must outlive the prices.
  explicit TransferPrices(const Experiment& experiment);

  struct Price {
    Ns hold_ns = 0;     ///< occupies the channel: serialization over the route
    Ns latency_ns = 0;  ///< added after that
  };
  Price of(std::int32_t from_rank, std::int32_t to_rank, Bytes bytes);

 private:
  struct Entry {
    bool known = false;
    double bytes_per_second = 0;
    Bytes bytes = 0;
    Price price{};
  };
  const Cluster& cluster_;
  std::size_t ranks_;
  std::vector<Entry> entries_;  // by ordered pair
};

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
