// A preset states its levels; of a cluster given link by link they are found (partition/cluster_levels.hpp).

#include "scenarios/prepare/planning_levels.hpp"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/partition/cluster_levels.hpp"
#include "scenarios/partition/pipedream_levels.hpp"
#include "scenarios/read/cluster_spec.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

struct LevelsOf {
  tl::expected<ClusterLevels, std::string> operator()(const UniformCluster& shape) const {
    if (shape.devices == 0) {
      return tl::unexpected(
          std::string("cluster.devices is missing: expected the number of devices to plan for, got nothing"));
    }
    return ClusterLevels{.levels = {{shape.devices, shape.bytes_per_second}}, .devices = {}};
  }
  tl::expected<ClusterLevels, std::string> operator()(const TwoLevelCluster& shape) const {
    std::vector<BandwidthLevel> levels;
    if (shape.devices_per_node > 1) levels.push_back({shape.devices_per_node, shape.intra_bytes_per_second});
    if (shape.nodes > 1 || levels.empty()) levels.push_back({shape.nodes, shape.inter_bytes_per_second});
    return ClusterLevels{.levels = std::move(levels), .devices = {}};
  }
  tl::expected<ClusterLevels, std::string> operator()(const Cluster& cluster) const {
    return cluster_levels(cluster);
  }
};

}  // namespace

tl::expected<ClusterLevels, std::string> levels_of(const ClusterSpec& cluster) {
  return std::visit(LevelsOf{}, cluster.shape);
}

}  // namespace penstock
