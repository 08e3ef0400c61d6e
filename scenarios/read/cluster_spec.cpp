// A cluster stays what the file said (a preset with its numbers, or links one by one) until somebody needs
// devices and routes; then this chooses the builder of topology/. Planning and calibration work on the
// numbers of the preset.

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

/// One builder a shape.
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
  // As many devices as ranks, which only the program says.
  if (uniform != nullptr && uniform->devices == 0) return spec;
  if (auto cluster = std::visit(Build{0}, spec.shape)) spec.built = *std::move(cluster);
  return spec;
}

tl::expected<Cluster, std::string> build_cluster(const ClusterSpec& spec, std::int32_t ranks) {
  // More devices than ranks are fine: the others stay idle.
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
