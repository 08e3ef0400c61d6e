#pragma once
// A cluster given link by link as PipeDream's partitioner takes one: levels of bandwidth. Used by
// planned_scenario.cpp.

#include <cstdint>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/partition/pipedream_levels.hpp"
#include "topology/cluster.hpp"

namespace penstock {

/// Levels from the lowest to the highest, and the cluster's devices component by component.
struct ClusterLevels {
  std::vector<BandwidthLevel> levels;
  std::vector<std::int32_t> devices;

  friend bool operator==(const ClusterLevels&, const ClusterLevels&) = default;
};

/// Two levels where the devices fall into groups of one size whose members reach each other faster than
/// anybody outside (servers around a network); each level's bandwidth is its narrowest route. Otherwise one
/// level with the narrowest route of all.
ClusterLevels cluster_levels(const Cluster& cluster);

/// What was taken for the cluster, a sentence.
std::string to_text(const ClusterLevels& levels);

/// The same machine with its devices numbered anew: device d is the one that was `order[d]`. Requires every
/// device once. Error: that of ClusterBuilder::build().
tl::expected<Cluster, std::string> in_device_order(const Cluster& cluster,
                                                   std::span<const std::int32_t> order);

}  // namespace penstock
