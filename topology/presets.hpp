#pragma once
// Ready-made clusters: clusters from papers, common servers, and shapes with parameters.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "topology/cluster.hpp"

namespace penstock {

/// A cluster of `devices` equal devices "gpu0", "gpu1", ... Each ordered pair has its own link, so no link is
/// shared.
struct UniformCluster {
  /// The number of devices, 1 to kMostJoinedDevices.
  std::int32_t devices = 1;
  /// The bandwidth of a link, greater than 0.
  double bytes_per_second = kUnlimitedBandwidth;
  /// The latency of a link in ns, at least 0.
  std::int64_t latency_ns = 0;
  /// The memory of a device in bytes, greater than 0. Absent means unlimited.
  std::optional<std::int64_t> memory_bytes = std::nullopt;
  /// The bytes of memory that a plan may not use, at least 0.
  std::int64_t reserved_bytes = 0;
  /// The compute rate of a device. 0 means unknown.
  double flops_per_second = 0;

  friend bool operator==(const UniformCluster&, const UniformCluster&) = default;
};
/// Returns the cluster. The error message names the field, its range and the value found.
tl::expected<Cluster, std::string> uniform_cluster(const UniformCluster& shape);

/// A cluster of `nodes` servers with `devices_per_node` devices each. The devices are "node0/gpu0", ...,
/// numbered server by server. Each device has a full-duplex link to the switch of its server. If there are
/// several servers, each has one full-duplex uplink to a central switch. A route between servers goes over a
/// device link, two uplinks and a device link.
struct TwoLevelCluster {
  /// The number of servers, at least 1.
  std::int32_t nodes = 1;
  /// The number of devices in each server, at least 1.
  std::int32_t devices_per_node = 1;
  /// The bandwidth of a device's link in each direction, greater than 0.
  double intra_bytes_per_second = kUnlimitedBandwidth;
  /// The latency of a whole route inside a server, at least 0. Each of its two links has half of it.
  std::int64_t intra_latency_ns = 0;
  /// The bandwidth of a server's uplink in each direction, greater than 0.
  double inter_bytes_per_second = kUnlimitedBandwidth;
  /// The latency of two uplinks together, at least 0. Each uplink has half of it.
  std::int64_t inter_latency_ns = 0;
  /// The memory of a device in bytes, greater than 0. Absent means unlimited.
  std::optional<std::int64_t> memory_bytes = std::nullopt;
  /// The bytes of memory that a plan may not use, at least 0.
  std::int64_t reserved_bytes = 0;
  /// The compute rate of a device. 0 means unknown.
  double flops_per_second = 0;
  /// The cluster's name.
  std::string name = "two-level";
  /// The order of the devices. They are first numbered server by server. Device d of the cluster is then the
  /// one with number device_order[d]. Empty means that the numbers do not change.
  std::vector<std::int32_t> device_order{};

  friend bool operator==(const TwoLevelCluster&, const TwoLevelCluster&) = default;
};
/// Returns the cluster. The error message names the field, its range and the value found.
tl::expected<Cluster, std::string> two_level_cluster(const TwoLevelCluster& shape);

/// Devices on a torus with any number of dimensions. In each dimension, a device has a full-duplex link to
/// both neighbours, and the last device is a neighbour of the first. Two devices in a dimension have a single
/// link. Messages pass through the devices between them, over the fewest links.
struct TorusCluster {
  std::vector<std::int32_t> dimensions{};         ///< The number of devices in each dimension, at least 1.
  double bytes_per_second = kUnlimitedBandwidth;  ///< The bandwidth of each link in each direction, > 0.
  std::int64_t latency_ns = 0;                    ///< The latency of each link, >= 0.
  std::optional<std::int64_t> memory_bytes = std::nullopt;  ///< Memory of a device, > 0. Absent: unlimited.
  std::int64_t reserved_bytes = 0;  ///< The bytes of memory that a plan may not use, >= 0.
  double flops_per_second = 0;      ///< The compute rate of a device, >= 0. 0: unknown.
  TorusCollectives collectives = TorusCollectives::dimensions;
  std::string name = "torus";
};
/// Returns the cluster. Its devices are "chip0-0", "chip0-1", .., in the order of `Torus`. The error message
/// names the field, its range and the value found.
tl::expected<Cluster, std::string> torus_cluster(const TorusCluster& shape);

/// A named torus, the size of a whole pod: "tpu-v2", "tpu-v3" or "tpu-v4". For a part of a pod, copy the
/// shape and set `dimensions`.
struct TorusPreset {
  std::string_view name;
  std::string_view summary;
  TorusCluster shape;
};
std::span<const TorusPreset> torus_presets();
/// Returns the names of all shapes and presets: "uniform", "two-level", "torus", and the names in both
/// tables.
std::vector<std::string_view> cluster_presets();
/// Returns the torus with this name, or null if there is none. Ignores case, '-' and '_'.
const TorusPreset* find_torus_preset(std::string_view name);

/// A named preset: "pipedream-a", "pipedream-b", "pipedream-c" or "dgx-h100". For another number of servers,
/// copy the shape and set `nodes`.
struct Preset {
  std::string_view name;
  /// A description with the devices, the bandwidths and the source of the figures.
  std::string_view summary;
  /// The shape with the usual number of servers.
  TwoLevelCluster shape;
};
/// Returns all presets.
std::span<const Preset> presets();
/// Returns the preset with this name, or null if there is none. Ignores case, '-', '_' and a leading
/// "cluster-". "Cluster-A" of the PipeDream paper finds "pipedream-a".
const Preset* find_preset(std::string_view name);

}  // namespace penstock
