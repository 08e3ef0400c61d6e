#pragma once
// Ready-made clusters: clusters of papers, common servers, and general shapes with parameters. ClusterBuilder
// (cluster.hpp) makes clusters with any links.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "topology/cluster.hpp"

namespace penstock {

/// A cluster of equal devices "gpu0", "gpu1", ... Each ordered pair of devices has its own link, so no link
/// is shared.
struct UniformCluster {
  /// The number of devices, 1 to kMostJoinedDevices.
  std::int32_t devices = 1;
  /// The bandwidth of each link in bytes per second, greater than 0.
  double bytes_per_second = kUnlimitedBandwidth;
  /// The latency of a link in ns, at least 0.
  std::int64_t latency_ns = 0;
  /// The memory of a device in bytes, greater than 0. Absent means unlimited.
  std::optional<std::int64_t> memory_bytes = std::nullopt;
  /// The bytes of memory that a plan may not use, at least 0.
  std::int64_t reserved_bytes = 0;
  /// The compute rate of each device in operations per second. 0 means unknown.
  double flops_per_second = 0;

  friend bool operator==(const UniformCluster&, const UniformCluster&) = default;
};
/// Returns the cluster with this shape. The error message names the field, its range and the value found.
tl::expected<Cluster, std::string> uniform_cluster(const UniformCluster& shape);

/// A cluster of servers. The devices "node0/gpu0", ... are numbered server by server. Each device has a
/// full-duplex link to the switch of its server. If there are several servers, each server has a full-duplex
/// uplink to a central switch. A route between servers then uses the links of both devices and the uplinks of
/// both servers.
struct TwoLevelCluster {
  /// The number of servers, at least 1.
  std::int32_t nodes = 1;
  /// The number of devices in each server, at least 1.
  std::int32_t devices_per_node = 1;
  /// The bandwidth in bytes per second of a device's link in each direction, greater than 0.
  double intra_bytes_per_second = kUnlimitedBandwidth;
  /// The latency in ns of a route inside a server, at least 0. Each of the two links on the route has half
  /// of this latency.
  std::int64_t intra_latency_ns = 0;
  /// The bandwidth in bytes per second of a server's uplink in each direction, greater than 0.
  double inter_bytes_per_second = kUnlimitedBandwidth;
  /// The latency in ns of two uplinks together, at least 0. Each uplink has half of this latency.
  std::int64_t inter_latency_ns = 0;
  /// The memory of a device in bytes, greater than 0. Absent means unlimited.
  std::optional<std::int64_t> memory_bytes = std::nullopt;
  /// The bytes of memory that a plan may not use, at least 0.
  std::int64_t reserved_bytes = 0;
  /// The compute rate of each device in operations per second. 0 means unknown.
  double flops_per_second = 0;
  /// The cluster's name.
  std::string name = "two-level";
  /// The order of the devices in the cluster. Device d of the cluster is the device with number
  /// device_order[d] when devices are numbered server by server. If the list is empty, devices are numbered
  /// server by server.
  std::vector<std::int32_t> device_order{};

  friend bool operator==(const TwoLevelCluster&, const TwoLevelCluster&) = default;
};
/// Returns the cluster with this shape. The error message names the field, its range and the value found.
tl::expected<Cluster, std::string> two_level_cluster(const TwoLevelCluster& shape);

/// A cluster whose devices form a torus with any number of dimensions. In each dimension, a device has
/// full-duplex links to both neighbours, and the first and the last device are neighbours. If a dimension
/// has only two devices, they have a single link. Messages between devices that are not neighbours pass
/// through other devices, over as few links as possible.
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
/// Returns the cluster with this shape. Its devices are "chip0-0", "chip0-1", .., in the order of `Torus`.
/// The error message names the field, its range and the value found.
tl::expected<Cluster, std::string> torus_cluster(const TorusCluster& shape);

/// A named torus with the size of a whole TPU pod: "tpu-v2", "tpu-v3" or "tpu-v4". For a part of a pod,
/// copy the shape and change `dimensions`.
struct TorusPreset {
  std::string_view name;
  std::string_view summary;
  TorusCluster shape;
};
std::span<const TorusPreset> torus_presets();
/// Returns the names that a scenario can use for a cluster: "uniform", "two-level", "torus", and the names
/// of presets() and torus_presets().
std::vector<std::string_view> cluster_presets();
/// Returns the torus with this name, or null if there is none. Ignores case, '-' and '_'.
const TorusPreset* find_torus_preset(std::string_view name);

/// A named cluster of servers: "pipedream-a", "pipedream-b", "pipedream-c" or "dgx-h100". For another number
/// of servers, copy the shape and change `nodes`.
struct Preset {
  std::string_view name;
  /// A description of the cluster: its devices, its bandwidths and the source of these figures.
  std::string_view summary;
  /// The shape with the usual number of servers.
  TwoLevelCluster shape;
};
/// Returns all presets.
std::span<const Preset> presets();
/// Returns the preset with this name, or null if there is none. Ignores case, '-' and '_'. The names that the
/// PipeDream paper uses are also accepted: "Cluster-A" is "pipedream-a".
const Preset* find_preset(std::string_view name);

// Defines accelerators by name: the rates, memory and links on which training steps depend. The files in
// scenarios/pricing compute the times of a model from them. A scenario can replace every value.

/// The bytes of device memory that a training run needs in addition to the bytes that its allocator counts.
/// The CUDA context, NCCL's buffers and fragmentation take 2 to 5 GiB.
inline constexpr std::int64_t kReservedBesideAllocator = std::int64_t{3} << 30;

/// One type of accelerator, and the server in which it is sold. Compute rates are for dense matrices. A
/// rate of a link is for one direction.
struct DeviceType {
  /// The name, such as "h100-sxm".
  std::string name;
  /// The name of the tables of kernel times that the device uses, such as "H100".
  std::string kernels;
  /// False if these kernel times were measured on another type of device. They are then scaled by the ratio
  /// of the peak rates.
  bool has_own_kernels = true;
  double bf16_flops_per_second = 0;
  /// The peak compute rate in fp8; 0 if the device does not support fp8.
  double fp8_flops_per_second = 0;
  /// The peak compute rate in fp4; 0 if the device does not support fp4.
  double fp4_flops_per_second = 0;
  double memory_bytes_per_second = 0;
  double nvlink_bytes_per_second = 0;
  /// The rate of the network card of one device, in bytes per second.
  double network_bytes_per_second = 0;
  /// The number of devices in one NVLink domain.
  std::int32_t nvlink_devices = 8;
  std::int32_t devices_per_node = 8;
  std::int32_t multiprocessors = 1;
  /// The memory in bytes; 0 means unlimited.
  std::int64_t memory_bytes = 0;
  /// Bytes of the memory that the driver reserves, plus kReservedBesideAllocator.
  std::int64_t reserved_bytes = 0;
  /// The time of a matrix product in a training step divided by its time in a short burst. In a long run,
  /// clocks are lower and power is limited. Each precision has its own factor; `sustained` is for bf16.
  double sustained = 1;
  double sustained_fp8 = 1;
  double sustained_fp4 = 1;
  /// The time of attention kernels divided by their time in the device's usual server. It is above 1 if the
  /// power is limited below the usual one.
  double attention_slowdown = 1;
  /// The fraction of the memory bandwidth that elementwise kernels reach.
  double memory_efficiency = 0.8;
  double nvlink_efficiency = 0.75;
  double network_efficiency = 0.8;
  std::int64_t link_latency_ns = 5'000;
  /// The latency of one step of a ring of devices, from one device to the next one over NVLink and over the
  /// network. A collective of a ring has a step for each device, so its latency grows with the ring.
  std::int64_t nvlink_step_ns = 3'400;
  std::int64_t network_step_ns = 14'000;
  /// The time to launch one kernel that is limited by the memory bandwidth.
  std::int64_t launch_ns = 2'000;
  /// The slowdown of a collective in a training step, if no computation runs at the same time. It is the
  /// collective's time in the step divided by its time in a separate measurement.
  double collectives = 1.35;
  /// The fraction of the time of gradient reductions over the network by which the step becomes longer,
  /// although computation runs at the same time. The time of a reduction without simultaneous computation
  /// is added completely.
  double step_fraction = 0.30;

  /// Returns the bytes of memory that a plan may use, or nothing if the memory is unlimited.
  std::optional<std::int64_t> usable_memory() const {
    return usable_bytes(memory_bytes > 0 ? std::optional(memory_bytes) : std::nullopt, reserved_bytes);
  }

  /// Returns the rate of one link to another device in bytes per second. It is the link's rate multiplied
  /// by the link's efficiency.
  double link_bytes_per_second(bool on_nvlink) const {
    return on_nvlink ? nvlink_bytes_per_second * nvlink_efficiency
                     : network_bytes_per_second * network_efficiency;
  }

  friend bool operator==(const DeviceType&, const DeviceType&) = default;
};

/// Returns the known devices: a100-sxm, h100-sxm, h200-sxm, b200-sxm, gb200, b300, gb300, a800, h800, h20,
/// l40s, mi300x, mi325x, tpu-v5p.
std::span<const DeviceType> device_types();
/// Returns the names of the known devices, separated by commas.
std::string device_type_names();
/// Returns the device type with that name, or null if there is none. Ignores case, '-' and '_', and "-sxm"
/// may be omitted.
const DeviceType* find_device_type(std::string_view name);

}  // namespace penstock
