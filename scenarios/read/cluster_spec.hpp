#pragma once
// The cluster as a scenario states it. It is built when the number of ranks is known, so that sweeps of K
// need not name a number of devices. Read by load.hpp, built by experiment.hpp.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <variant>

#include "scenarios/pricing/kernel_tables.hpp"
#include "topology/cluster.hpp"
#include "topology/device_types.hpp"
#include "topology/presets.hpp"

namespace penstock {

/// Nodes of a kind of device.
struct DeviceCluster {
  DeviceType type;
  std::int32_t nodes = 1;
  std::shared_ptr<const KernelTables> kernels{};  ///< measured on it
  std::int64_t device_count() const { return std::int64_t{nodes} * type.devices_per_node; }
};

/// A parametrised shape or a cluster written out device by device.
struct ClusterSpec {
  /// A UniformCluster of 0 devices has as many as the program has ranks.
  std::variant<UniformCluster, TwoLevelCluster, Cluster> shape =
      UniformCluster{.devices = 0, .memory_bytes = {}};
  std::string name = "uniform";                   ///< the preset's name, for messages
  std::optional<double> price_per_device_hour{};  ///< >= 0, in whatever money the user counts
  std::optional<DeviceCluster> named{};  ///< given by its devices' name; `shape` is then what follows from it
  std::int32_t devices_per_rank = 1;     ///< what is called a device here is so many, which share each layer
  std::optional<Cluster> built{};        ///< of `shape`, where it has been built before (built_once())
};

/// The same, built already where the shape says how many devices there are: sweeps build it once.
ClusterSpec built_once(ClusterSpec spec);

/// The cluster for a program of `ranks` ranks; device r runs rank r. Errors: fewer devices than ranks (both
/// numbers are named), and those of the shape.
tl::expected<Cluster, std::string> build_cluster(const ClusterSpec& spec, std::int32_t ranks);

}  // namespace penstock
