// Builds a cluster from its spec. The spec holds what the file states: a preset with its numbers, or a list
// of links. Planning and calibration use the numbers of the preset. This file calls the builder in topology/
// when devices and routes are needed.

#include "scenarios/read/cluster_spec.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

/// A visitor that calls the builder of each shape.
struct Build {
  std::int32_t ranks;

  tl::expected<Cluster, std::string> operator()(UniformCluster shape) const {
    if (shape.devices == 0) shape.devices = ranks;
    return uniform_cluster(shape);
  }
  tl::expected<Cluster, std::string> operator()(const TwoLevelCluster& shape) const {
    return two_level_cluster(shape);
  }
  tl::expected<Cluster, std::string> operator()(const Cluster& cluster) const { return cluster; }
};

}  // namespace

ClusterSpec built_once(ClusterSpec spec) {
  const auto* uniform = std::get_if<UniformCluster>(&spec.shape);
  // The number of devices is the number of ranks, which only the program states.
  if (uniform != nullptr && uniform->devices == 0) return spec;
  if (auto cluster = std::visit(Build{0}, spec.shape)) spec.built = *std::move(cluster);
  return spec;
}

tl::expected<Cluster, std::string> build_cluster(const ClusterSpec& spec, std::int32_t ranks) {
  // A cluster may have more devices than ranks. The others stay idle.
  auto cluster = spec.built ? *spec.built : std::visit(Build{ranks}, spec.shape);
  if (cluster && cluster->device_count() < ranks) {
    return tl::unexpected(
        fmt::format("cluster: the program has {} ranks, the cluster ({}) only {} device{}; one rank "
                    "needs one device, so add devices or take fewer ranks",
                    ranks, spec.name, cluster->device_count(), cluster->device_count() == 1 ? "" : "s"));
  }
  return cluster;
}

}  // namespace penstock
