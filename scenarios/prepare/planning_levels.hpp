#pragma once
// A scenario's cluster as partitioners see it: levels of bandwidth.

#include <string>
#include <tl/expected.hpp>

#include "scenarios/partition/cluster_levels.hpp"
#include "scenarios/read/cluster_spec.hpp"

namespace penstock {

/// The levels of bandwidth of a cluster, from the lowest to the highest; those of one component are left out
/// unless no other is there. Of a cluster given link by link those of cluster_levels(); others number their
/// devices component by component, and `devices` is empty. Error: a uniform cluster without a number of
/// devices.
tl::expected<ClusterLevels, std::string> levels_of(const ClusterSpec& cluster);

}  // namespace penstock
