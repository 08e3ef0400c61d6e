#pragma once
// The cluster as a scenario states it. It is built when the number of ranks is known, so that a sweep over K
// does not need the number of devices. load.hpp reads it, and experiment.hpp builds it.

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

/// The nodes of a cluster with one kind of device.
struct DeviceCluster {
  DeviceType type;
  std::int32_t nodes = 1;
  std::shared_ptr<const KernelTables> kernels{};  ///< the kernels that were measured on the device
  std::int64_t device_count() const { return std::int64_t{nodes} * type.devices_per_node; }
};

/// The shape of a cluster: a preset with parameters, or a list of devices and links.
struct ClusterSpec {
  /// The shape. A UniformCluster with 0 devices gets as many devices as the program has ranks.
  std::variant<UniformCluster, TwoLevelCluster, Cluster> shape =
      UniformCluster{.devices = 0, .memory_bytes = {}};
  std::string name = "uniform";                   ///< the preset's name in error messages
  std::optional<double> price_per_device_hour{};  ///< >= 0, in the user's currency
  /// The cluster, if the scenario names its kind of device. `shape` then follows from it.
  std::optional<DeviceCluster> named{};
  /// The real devices that one device of `shape` represents. They share each layer.
  std::int32_t devices_per_rank = 1;
  std::optional<Cluster> built{};  ///< the cluster of `shape` if it is already built (built_once())
};

/// Returns the spec with its cluster built, if the shape states the number of devices. A sweep then builds it
/// only once.
ClusterSpec built_once(ClusterSpec spec);

/// Returns the cluster for a program of `ranks` ranks. Device r runs rank r. Errors: fewer devices than ranks
/// (the message has both numbers), and the errors of the shape.
tl::expected<Cluster, std::string> build_cluster(const ClusterSpec& spec, std::int32_t ranks);

}  // namespace penstock
