#pragma once
// The cost of a collective on the routes of its group (the ring algorithm, which NCCL and Horovod use).

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

/// Returns the order in which a ring visits a group of devices. That is the given order, or from each device
/// to the nearest remaining one (the widest route, then the least latency, then the fewest links). The second
/// is returned only if its busiest link carries less. So a ring over servers enters and leaves each server
/// once, even if the group lists its devices in another order. Takes O(devices^2) routes.
std::vector<std::int32_t> ring_order(const Cluster& cluster, std::span<const std::int32_t> devices);

}  // namespace penstock
