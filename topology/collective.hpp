#pragma once
// Computes the cost of a collective on the routes of its group of devices. The collective uses one ring
// through all devices, as with NCCL and Horovod, or rings in each dimension of a torus.

#include <cstdint>
#include <span>
#include <vector>

#include "topology/cluster.hpp"

namespace penstock {

enum class Collective : std::uint8_t { all_reduce, reduce_scatter, all_gather };

/// The cost of a collective on a ring of n devices. Each of the routes 0>1, 1>2, ..., n-1>0 carries
/// `bytes_per_link` bytes in equal steps, and all routes work at the same time. The slowest route therefore
/// determines the duration:
///
///   duration_ns = serialization_ns(bytes_per_link, bytes_per_second) + latency_ns
///
/// The formula assumes that no two routes share a link. If they do, the event engine is needed. All fields
/// are limited to the largest std::int64_t.
struct RingCost {
  /// The bytes that each route carries, rounded up. They are 2(n-1)/n * bytes for all_reduce, and (n-1)/n *
  /// bytes for the other collectives.
  std::int64_t bytes_per_link = 0;
  /// The smallest bandwidth among the ring's routes.
  double bytes_per_second = kUnlimitedBandwidth;
  /// The largest latency of the ring's routes, multiplied by the number of steps: 2(n-1) for all_reduce and
  /// n-1 for the other collectives.
  std::int64_t latency_ns = 0;
  std::int64_t duration_ns = 0;

  friend bool operator==(const RingCost&, const RingCost&) = default;
};

/// Returns the cost of a collective over `devices`, which form a ring in this order. `bytes` (>= 0) is the
/// size of each rank's whole buffer. A group of fewer than two devices costs nothing. On equal links with
/// bandwidth B and latency a, a ring all-reduce takes 2(n-1)/n * bytes/B + 2(n-1)*a (Patarasuk and Yuan,
/// JPDC 2009).
RingCost ring_cost(const Cluster& cluster, std::span<const std::int32_t> devices, Collective collective,
                   std::int64_t bytes);

/// The bytes that one device of a ring sends to its neighbour.
struct RingHop {
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::int64_t bytes = 0;

  friend bool operator==(const RingHop&, const RingHop&) = default;
};

/// The transfers of all rings that work at the same time, and the total latency of their steps.
struct CollectivePhase {
  std::vector<RingHop> hops;
  std::int64_t latency_ns = 0;
};

/// The phases of a collective, which run one after the other, and its cost.
struct CollectiveRoute {
  std::vector<CollectivePhase> phases;  ///< Empty if there are fewer than two devices.
  /// The cost of all phases together. `bytes_per_link` is the number of bytes that a device sends.
  RingCost cost;
};

/// Returns the phases of a collective of `bytes` (>= 0) over the devices in `ring`. The devices must be in
/// the order of ring_order(). Usually, the collective is one ring in this order.
///
/// If the group is a grid on a torus with TorusCollectives::dimensions, there are rings in each dimension.
/// Let the group have d_1, d_2, .. devices in the dimensions, and n devices in total. A reduce-scatter uses
/// rings of d_1 devices with all bytes, then rings of d_2 devices with 1/d_1 of the bytes, and so on. An
/// all-gather uses the same rings in the reverse order, and an all-reduce is both. If no other transfer uses
/// the torus, an all-reduce takes 2(n-1)/n * bytes/B + 2 sum(d_i - 1) * a. B is the bandwidth and a the
/// latency of a link. One ring would have the latency 2(n-1) * a.
CollectiveRoute collective_route(const Cluster& cluster, std::span<const std::int32_t> ring,
                                 Collective collective, std::int64_t bytes);

/// Returns the order in which the devices form a ring. There are two candidates: the given order, and an
/// order that goes from each device to the nearest remaining one. The nearest one has the route with the
/// largest bandwidth, then the least latency, then the fewest links. The second order is returned only if
/// its busiest link carries less. A ring over servers then enters and leaves each server once, even if the
/// given order does not. On a torus, the second order alternates its direction from line to line, and is
/// also returned if both are equal. Computes O(devices^2) routes.
std::vector<std::int32_t> ring_order(const Cluster& cluster, std::span<const std::int32_t> devices);

}  // namespace penstock
