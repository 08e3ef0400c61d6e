#pragma once
// Ready-made clusters: the ones of the papers, common nodes, and parametrised shapes.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "topology/cluster.hpp"

namespace penstock {

/// `devices` equal devices "gpu0", "gpu1", ..., a dedicated link for every ordered pair: nothing is shared.
struct UniformCluster {
  std::int32_t devices = 1;                                 ///< 1..kMostJoinedDevices
  double bytes_per_second = kUnlimitedBandwidth;            ///< > 0
  std::int64_t latency_ns = 0;                              ///< >= 0
  std::optional<std::int64_t> memory_bytes = std::nullopt;  ///< > 0; absent: unlimited
  std::int64_t reserved_bytes = 0;                          ///< >= 0; of the memory, what a plan may not use
  double flops_per_second = 0;                              ///< >= 0; 0: unknown

  friend bool operator==(const UniformCluster&, const UniformCluster&) = default;
};
/// Errors name the field, its range and the value found.
tl::expected<Cluster, std::string> uniform_cluster(const UniformCluster& shape);

/// `nodes` servers of `devices_per_node` devices "node0/gpu0", ..., numbered server by server. Inside a
/// server each device has a full-duplex link to the server's switch; with several servers each has one
/// full-duplex uplink to a central switch. A route between servers crosses device link, uplink, uplink,
/// device link.
struct TwoLevelCluster {
  std::int32_t nodes = 1;                               ///< >= 1
  std::int32_t devices_per_node = 1;                    ///< >= 1
  double intra_bytes_per_second = kUnlimitedBandwidth;  ///< > 0, each way of a device's link
  std::int64_t intra_latency_ns =
      0;  ///< >= 0, of a whole route inside a server (half on each of its two links)
  double inter_bytes_per_second = kUnlimitedBandwidth;  ///< > 0, each way of a server's uplink
  std::int64_t inter_latency_ns = 0;                    ///< >= 0, of the two uplinks together (half on each)
  std::optional<std::int64_t> memory_bytes = std::nullopt;  ///< > 0; absent: unlimited
  std::int64_t reserved_bytes = 0;                          ///< >= 0; of the memory, what a plan may not use
  double flops_per_second = 0;                              ///< >= 0; 0: unknown
  std::string name = "two-level";                           ///< of the cluster
  /// Device d of the cluster is number device_order[d] server by server; empty: in that order.
  std::vector<std::int32_t> device_order{};

  friend bool operator==(const TwoLevelCluster&, const TwoLevelCluster&) = default;
};
/// Errors name the field, its range and the value found.
tl::expected<Cluster, std::string> two_level_cluster(const TwoLevelCluster& shape);

/// One named preset with a source line: "pipedream-a", "pipedream-b", "pipedream-c", "dgx-h100". For
/// another number of servers copy the shape and set `nodes`.
struct Preset {
  std::string_view name;
  std::string_view summary;  ///< devices, bandwidths and where the figures come from
  TwoLevelCluster shape;     ///< with the preset's usual number of nodes
};
std::span<const Preset> presets();
/// The preset of that name (case, '-', '_' and a leading "cluster-" are ignored); null when there is none.
/// The PipeDream paper's own "Cluster-A" finds "pipedream-a".
const Preset* find_preset(std::string_view name);

}  // namespace penstock
