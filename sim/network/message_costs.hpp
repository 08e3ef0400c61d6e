#pragma once
// What each compute action and message of a flat program costs on a cluster. Both engines start from it.

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
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
    std::int32_t to_rank = 0;
    double bytes_per_second = 0;
    Bytes bytes = 0;
    Price price{};
  };
  Entry& entry_of(std::int32_t from_rank, std::int32_t to_rank);

  const Cluster& cluster_;
  std::vector<std::vector<Entry>> entries_;  // by sender: the few that it sends to
};

/// The ring of a collective: its ranks in the order in which it goes round them, and what it costs.
struct CollectiveRing {
  std::vector<std::int32_t> ranks;
  RingCost cost;
};

/// The rings of a program's collectives. Groups and sizes repeat, so each is made once.
class CollectiveRings {
 public:
  /// The experiment must outlive the rings.
  explicit CollectiveRings(const Experiment& experiment) : experiment_(experiment) {}

  /// Of a REDUCE_GRAD or UNSHARD. Good for as long as the rings are.
  const CollectiveRing& of(const Action& action);
  /// The ranks that hold the stage, in the order of its rings.
  const std::vector<std::int32_t>& ranks_of(std::int32_t stage);

 private:
  const Experiment& experiment_;
  std::map<std::vector<std::int32_t>, std::vector<std::int32_t>> orders_;  // by group
  std::map<std::pair<ActionKind, std::int32_t>, CollectiveRing> rings_;    // by kind and stage
};

/// Durations of all compute actions, and of all messages when nothing is shared: a transfer holds its
/// channel for the serialization of its bytes over its route and arrives after the route's latency; a
/// collective takes the ring_cost() of its ring.
WalkDurations walk_durations(const Experiment& experiment, const FlatProgram& flat);

/// The collective of a stage's REDUCE_GRAD or UNSHARD, and the bytes of its buffer.
struct CollectiveShape {
  Collective algorithm = Collective::all_reduce;
  Bytes bytes = 0;
};
CollectiveShape collective_shape(const Experiment& experiment, const Action& action);

}  // namespace penstock
