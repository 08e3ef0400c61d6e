#pragma once
// What a collective costs on the routes of its group (the ring algorithm, as NCCL and Horovod use).

#include <cstdint>
#include <span>
#include <vector>

#include "topology/cluster.hpp"

namespace penstock {

enum class Collective : std::uint8_t { all_reduce, reduce_scatter, all_gather };

/// A ring collective over n devices in the given order: the routes 0>1, 1>2, ..., n-1>0 each carry
/// `bytes_per_link` in equal steps, all at the same time, so that the slowest route sets the pace:
///
///   duration_ns = serialization_ns(bytes_per_link, bytes_per_second) + latency_ns
///
/// The ring's routes are taken as disjoint; where two of them share a link, the event engine's sharing
/// decides, not this figure. All fields saturate.
struct RingCost {
  std::int64_t bytes_per_link = 0;  ///< all_reduce: 2(n-1)/n * bytes, others (n-1)/n * bytes, rounded up
  double bytes_per_second = kUnlimitedBandwidth;  ///< the least of the ring's routes
  std::int64_t latency_ns = 0;  ///< the largest of the ring's routes, 2(n-1) times for all_reduce, else n-1
  std::int64_t duration_ns = 0;

  friend bool operator==(const RingCost&, const RingCost&) = default;
};

/// Cost of one collective of `bytes` (>= 0, the whole buffer of each rank) over `devices`. A group of one
/// or of no device costs nothing. Ring all-reduce takes 2(n-1)/n * bytes/B + 2(n-1)*a on uniform links of
/// bandwidth B and latency a (Patarasuk and Yuan, JPDC 2009).
RingCost ring_cost(const Cluster& cluster, std::span<const std::int32_t> devices, Collective collective,
                   std::int64_t bytes);

/// The order in which a ring goes round a group of devices: as given, or from each device to the nearest one
/// that is left (the widest route, then the least latency, then the fewest links), where the link that is
/// busiest in that ring has less to carry. So a ring over servers enters and leaves each of them once,
/// however the group numbers its devices. O(devices^2) routes.
std::vector<std::int32_t> ring_order(const Cluster& cluster, std::span<const std::int32_t> devices);

}  // namespace penstock
