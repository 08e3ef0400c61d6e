#pragma once
// Finds levels of bandwidth for a cluster that is given link by link, because PipeDream's partitioner needs
// levels. Used by planned_scenario.cpp.

#include <cstdint>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/partition/pipedream_levels.hpp"
#include "topology/cluster.hpp"

namespace penstock {

/// The levels from the lowest to the highest. `devices` lists the cluster's devices component by component.
struct ClusterLevels {
  std::vector<BandwidthLevel> levels;
  std::vector<std::int32_t> devices;

  friend bool operator==(const ClusterLevels&, const ClusterLevels&) = default;
};

/// Returns two levels if the devices form groups of equal size, such as servers in a network. The members of
/// a group must reach each other faster than they reach other devices. Each level has the bandwidth of its
/// slowest route. Otherwise returns one level with the bandwidth of the slowest route.
ClusterLevels cluster_levels(const Cluster& cluster);

/// Returns a sentence that describes the levels assumed for the cluster.
std::string to_text(const ClusterLevels& levels);

/// Returns the cluster with its devices renumbered: the new device d is the old device `order[d]`. Requires
/// that `order` contains every device once. Error: the error of ClusterBuilder::build().
tl::expected<Cluster, std::string> in_device_order(const Cluster& cluster,
                                                   std::span<const std::int32_t> order);

}  // namespace penstock
