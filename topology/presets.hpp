#pragma once
// Ready-made clusters: those of papers, common nodes, and shapes with parameters.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "topology/cluster.hpp"

namespace penstock {

/// A cluster of `devices` equal devices "gpu0", "gpu1", ... with a dedicated link for every ordered pair. No
/// link is shared.
struct UniformCluster {
  /// 1..kMostJoinedDevices.
  std::int32_t devices = 1;
  /// The rate, greater than 0.
  double bytes_per_second = kUnlimitedBandwidth;
  /// The latency, at least 0.
  std::int64_t latency_ns = 0;
  /// The memory of a device, greater than 0; absent means unlimited.
  std::optional<std::int64_t> memory_bytes = std::nullopt;
  /// The part of the memory that a plan may not use, at least 0.
  std::int64_t reserved_bytes = 0;
  /// The compute rate of a device; 0 means unknown.
  double flops_per_second = 0;

  friend bool operator==(const UniformCluster&, const UniformCluster&) = default;
};
/// Returns the cluster. Errors name the field, its range and the value found.
tl::expected<Cluster, std::string> uniform_cluster(const UniformCluster& shape);

/// A cluster of `nodes` servers with `devices_per_node` devices each: "node0/gpu0", ..., numbered server by
/// server. Inside a server each device has a full-duplex link to the server's switch. If there are several
/// servers, each has one full-duplex uplink to a central switch. A route between servers crosses a device
/// link, two uplinks and a device link.
struct TwoLevelCluster {
  /// The number of nodes, at least 1.
  std::int32_t nodes = 1;
  /// The number of devices in each node, at least 1.
  std::int32_t devices_per_node = 1;
  /// The rate in each direction of a device's link, greater than 0.
  double intra_bytes_per_second = kUnlimitedBandwidth;
  /// The latency of a whole route inside a server (half on each of its two links), at least 0.
  std::int64_t intra_latency_ns = 0;
  /// The rate in each direction of a server's uplink, greater than 0.
  double inter_bytes_per_second = kUnlimitedBandwidth;
  /// The latency of two uplinks together (half on each), at least 0.
  std::int64_t inter_latency_ns = 0;
  /// The memory of a device, greater than 0; absent means unlimited.
  std::optional<std::int64_t> memory_bytes = std::nullopt;
  /// The part of the memory that a plan may not use, at least 0.
  std::int64_t reserved_bytes = 0;
  /// The compute rate of a device; 0 means unknown.
  double flops_per_second = 0;
  /// The name of the cluster.
  std::string name = "two-level";
  /// The order of devices: device d of the cluster is number device_order[d], counted server by server. Empty
  /// means that order.
  std::vector<std::int32_t> device_order{};

  friend bool operator==(const TwoLevelCluster&, const TwoLevelCluster&) = default;
};
/// Returns the cluster. Errors name the field, its range and the value found.
tl::expected<Cluster, std::string> two_level_cluster(const TwoLevelCluster& shape);

/// Devices on a torus of any number of dimensions: each has a full-duplex link to both of its neighbours in
/// every dimension, round the edges. A dimension of two devices has one link between them. Messages pass
/// through the devices between, over the fewest links.
struct TorusCluster {
  std::vector<std::int32_t> dimensions{};                   ///< Devices along each dimension, >= 1.
  double bytes_per_second = kUnlimitedBandwidth;            ///< > 0, of each link each way.
  std::int64_t latency_ns = 0;                              ///< >= 0, of each link.
  std::optional<std::int64_t> memory_bytes = std::nullopt;  ///< > 0. Absent: unlimited.
  std::int64_t reserved_bytes = 0;                          ///< >= 0, the part of the memory no plan may use.
  double flops_per_second = 0;                              ///< >= 0; 0: unknown.
  TorusCollectives collectives = TorusCollectives::dimensions;
  std::string name = "torus";
};
/// Returns the cluster. Its devices are "chip0-0", "chip0-1", .., in the order of `Torus`. Errors name the
/// field, its range and the value found.
tl::expected<Cluster, std::string> torus_cluster(const TorusCluster& shape);

/// A named torus with its source: "tpu-v2", "tpu-v3", "tpu-v4", each the size of a whole pod. For a slice
/// copy the shape and set `dimensions`.
struct TorusPreset {
  std::string_view name;
  std::string_view summary;
  TorusCluster shape;
};
std::span<const TorusPreset> torus_presets();
/// Returns the names of all shapes and presets: "uniform", "two-level", "torus", and those of both tables.
std::vector<std::string_view> cluster_presets();
/// Returns the torus of that name (case, '-' and '_' are ignored); null when there is none.
const TorusPreset* find_torus_preset(std::string_view name);

/// One named preset: "pipedream-a", "pipedream-b", "pipedream-c" or "dgx-h100". For another number of
/// servers, copy the shape and set `nodes`.
struct Preset {
  std::string_view name;
  /// The devices, the bandwidths and the source of the figures.
  std::string_view summary;
  /// The shape with the preset's usual number of nodes.
  TwoLevelCluster shape;
};
/// Returns all presets.
std::span<const Preset> presets();
/// Returns the preset of that name, or null if there is none. Case, '-', '_' and a leading "cluster-" are
/// ignored. "Cluster-A" of the PipeDream paper finds "pipedream-a".
const Preset* find_preset(std::string_view name);

}  // namespace penstock
