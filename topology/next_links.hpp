#pragma once
// The forwarding table behind Cluster::route: for each destination device the link that every node takes.

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "topology/cluster.hpp"

namespace penstock {

/// A node's entry for a destination that it cannot reach, or to which no route of a device leads over it.
inline constexpr std::int32_t kNoLink = -1;

/// a + b of non-negative times; the largest std::int64_t when it does not fit one.
constexpr std::int64_t saturating_sum_ns(std::int64_t a, std::int64_t b) {
  const auto most = std::numeric_limits<std::int64_t>::max();
  return a > most - b ? most : a + b;
}

/// Entry [destination * node_count + node] is the index of the link on which `node` forwards to
/// `destination`, by the rule of Cluster::route. Nodes 0..device_count-1 are the devices. Requires valid
/// node numbers, bandwidths > 0 and latencies >= 0.
std::vector<std::int32_t> next_links(std::span<const Link> links, std::int32_t device_count,
                                     std::int32_t node_count);

}  // namespace penstock
