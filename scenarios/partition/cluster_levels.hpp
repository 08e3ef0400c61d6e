#pragma once
// Levels of bandwidth for a cluster that is given link by link, as PipeDream's partitioner needs them. Used
// by planned_scenario.cpp.

#include <cstdint>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/partition/pipedream_levels.hpp"
#include "topology/cluster.hpp"

namespace penstock {

/// The levels from the lowest to the highest, and the cluster's devices component by component.
struct ClusterLevels {
  std::vector<BandwidthLevel> levels;
  std::vector<std::int32_t> devices;

  friend bool operator==(const ClusterLevels&, const ClusterLevels&) = default;
};

/// Returns two levels if the devices form groups of one size whose members reach each other faster than
/// devices outside (servers in a network). Each level's bandwidth is that of its slowest route. Otherwise
/// returns one level with the bandwidth of the slowest route of all.
ClusterLevels cluster_levels(const Cluster& cluster);

/// Returns a sentence that describes the levels assumed for the cluster.
std::string to_text(const ClusterLevels& levels);

/// Returns the same machine with its devices numbered anew: device d is the one that was `order[d]`. Requires
/// every device once. Error: that of ClusterBuilder::build().
tl::expected<Cluster, std::string> in_device_order(const Cluster& cluster,
                                                   std::span<const std::int32_t> order);

}  // namespace penstock
