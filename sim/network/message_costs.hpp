#pragma once
// Computes the durations of the compute actions and messages of a flat program on a cluster, for both
// engines.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "topology/cluster.hpp"
#include "topology/collective.hpp"

namespace penstock {

/// A calculator of the times of transfers between two ranks. It caches the route and the last size of every
/// pair of ranks.
class TransferPrices {
 public:
  /// Keeps a reference to the experiment, which must outlive this object.
  explicit TransferPrices(const Experiment& experiment);

  struct Price {
    Ns hold_ns = 0;  ///< time for which the transfer occupies its channel: the serialization over the route
    Ns latency_ns = 0;  ///< time from the end of the serialization to the arrival
  };
  Price of(std::int32_t from_rank, std::int32_t to_rank, Bytes bytes);

 private:
  struct Entry {
    std::int32_t to_rank = 0;
    double bytes_per_second = 0;
    Bytes bytes = 0;
    Price price{};
  };
  Entry& entry_of(std::int32_t from_rank, std::int32_t to_rank);

  const Cluster& cluster_;
  std::vector<std::vector<Entry>> entries_;  // for each sender, an entry for each rank to which it sends
};

/// The rings that a collective uses, and their total cost.
struct CollectiveRing {
  /// Phases in the order in which they run; empty for fewer than two ranks.
  std::vector<CollectivePhase> phases;
  RingCost cost;
  /// The bytes that each rank sends to its neighbours in all phases together. The entries are ordered by
  /// sender and then by receiver.
  std::vector<RingHop> sent;

  std::span<const RingHop> sent_by(std::int32_t rank) const;
};

/// The rings of a program's collectives. Groups and sizes repeat, so each ring is computed once.
class CollectiveRings {
 public:
  /// Keeps a reference to the experiment, which must outlive this object.
  explicit CollectiveRings(const Experiment& experiment) : experiment_(experiment) {}

  /// Returns the ring of a REDUCE_GRAD or UNSHARD. The reference is valid as long as this object exists.
  const CollectiveRing& of(const Action& action);

 private:
  /// Returns the ranks that hold the stage, in the order of their ring.
  const std::vector<std::int32_t>& ranks_of(std::int32_t stage);

  const Experiment& experiment_;
  std::map<std::vector<std::int32_t>, std::vector<std::int32_t>> orders_;  // ring order of each group
  // The ring for each kind of collective and each stage.
  std::map<std::pair<ActionKind, std::int32_t>, CollectiveRing> rings_;
};

/// Returns the time for which an OFFLOAD or RELOAD occupies its queue. It is the latency of the connection to
/// the host, plus the bytes divided by the bandwidth.
Ns host_copy_ns(const CostTable& costs, const Action& copy);

/// Returns the durations of all compute actions, and of all messages as if no links were shared. A transfer
/// occupies its channel while its bytes are serialized over the route. It arrives after the route's
/// latency. A collective takes the time of its collective_route().
WalkDurations walk_durations(const Experiment& experiment, const FlatProgram& flat);

/// The collective operation that a REDUCE_GRAD or UNSHARD of a stage runs, and the bytes of its buffer.
struct CollectiveShape {
  Collective algorithm = Collective::all_reduce;
  Bytes bytes = 0;
};
CollectiveShape collective_shape(const Experiment& experiment, const Action& action);

}  // namespace penstock
