#pragma once
// What a collective costs on the routes of its group: one ring through all devices, as NCCL and Horovod use
// it, or on a torus a ring in each dimension.

#include <cstdint>
#include <span>
#include <vector>

#include "topology/cluster.hpp"

namespace penstock {

enum class Collective : std::uint8_t { all_reduce, reduce_scatter, all_gather };

/// The cost of a ring collective over n devices in the given order. The routes 0>1, 1>2, ..., n-1>0 each
/// carry `bytes_per_link` in equal steps, all at the same time, so the slowest route determines the duration:
///
///   duration_ns = serialization_ns(bytes_per_link, bytes_per_second) + latency_ns
///
/// The routes are assumed to share no link. If two of them share one, use the event engine instead of this
/// figure. All fields saturate.
struct RingCost {
  /// The bytes on each route: 2(n-1)/n * bytes for all_reduce, (n-1)/n * bytes for the others, rounded up.
  std::int64_t bytes_per_link = 0;
  /// The smallest bandwidth among the ring's routes.
  double bytes_per_second = kUnlimitedBandwidth;
  /// The largest latency among the ring's routes, times 2(n-1) for all_reduce and n-1 for the others.
  std::int64_t latency_ns = 0;
  std::int64_t duration_ns = 0;

  friend bool operator==(const RingCost&, const RingCost&) = default;
};

/// Returns the cost of one collective of `bytes` (>= 0, the whole buffer of each rank) over `devices`. A
/// group of less than two devices costs nothing. A ring all-reduce takes 2(n-1)/n * bytes/B + 2(n-1)*a on
/// uniform links of bandwidth B and latency a (Patarasuk and Yuan, JPDC 2009).
RingCost ring_cost(const Cluster& cluster, std::span<const std::int32_t> devices, Collective collective,
                   std::int64_t bytes);

/// Bytes that one device sends to its neighbour in a ring.
struct RingHop {
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::int64_t bytes = 0;

  friend bool operator==(const RingHop&, const RingHop&) = default;
};

/// The hops of rings that work at the same time, and the latency that follows their last byte.
struct CollectivePhase {
  std::vector<RingHop> hops;
  std::int64_t latency_ns = 0;
};

/// A collective as the links carry it: phases one after the other.
struct CollectiveRoute {
  std::vector<CollectivePhase> phases;  ///< Empty for fewer than two devices.
  /// Its sums: `bytes_per_link` is what a device sends in all phases, `duration_ns` what they take together.
  RingCost cost;
};

/// Returns the phases of a collective of `bytes` (>= 0) over the devices of `ring`, which ring_order() has
/// ordered. It is one ring in that order, except for a group that is a grid of a torus whose collectives go
/// by dimension. There, with d_1, d_2, .. devices along the dimensions and n of them in all, a reduce-scatter
/// takes a ring of d_1 with all bytes, then rings of d_2 with the d_1-th part that is left, and so on. An
/// all-gather goes the same way back, and an all-reduce is both. On a free torus of bandwidth B and latency a
/// an all-reduce takes 2(n-1)/n * bytes/B + 2 sum(d_i - 1) * a, where one ring has 2(n-1) * a.
CollectiveRoute collective_route(const Cluster& cluster, std::span<const std::int32_t> ring,
                                 Collective collective, std::int64_t bytes);

/// Returns the order in which a ring visits a group of devices. That is the given order, or from each device
/// to the nearest remaining one (the widest route, then the least latency, then the fewest links). The second
/// is returned only if its busiest link carries less. On a torus the second order is to and fro along its
/// dimensions, and is preferred. So a ring over servers enters and leaves each server
/// once, even if the group lists its devices in another order. Takes O(devices^2) routes.
std::vector<std::int32_t> ring_order(const Cluster& cluster, std::span<const std::int32_t> devices);

}  // namespace penstock
