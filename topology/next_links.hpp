#pragma once
// Computes the table from which Cluster::route() reads routes. For each destination device, the table
// contains the next link of every node.

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "topology/cluster.hpp"

namespace penstock {

/// The entry of a node that has no next link to a destination. Such a node is the destination itself,
/// cannot reach it, or is on no device's route.
inline constexpr std::int32_t kNoLink = -1;

/// Returns a + b for two non-negative times in ns, or the largest std::int64_t if the sum is larger.
constexpr std::int64_t saturating_sum_ns(std::int64_t a, std::int64_t b) {
  const auto most = std::numeric_limits<std::int64_t>::max();
  return a > most - b ? most : a + b;
}

/// Returns the forwarding table for these links. Entry [destination * node_count + node] is the index of
/// the link on which `node` forwards messages to `destination`, by the rule of Cluster::route(). Nodes
/// 0..device_count-1 are the devices. Requires valid node numbers, bandwidths > 0 and latencies >= 0.
std::vector<std::int32_t> next_links(std::span<const Link> links, std::int32_t device_count,
                                     std::int32_t node_count);

}  // namespace penstock
