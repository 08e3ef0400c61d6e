// Makes the ready-made clusters of presets.hpp. The file has the tables of presets, and the three shapes
// of clusters:
//
//   uniform                two-level                  central                   torus, [2, 3]
//     gpu0 <-> gpu1                             uplink /     \ uplink            |0-0|0-1|0-2|
//        \\   //                               switch           switch           |1-0|1-1|1-2|
//         gpu2                                /  |  \          /  |  \         (every edge a link, and
//                                          gpu0 gpu1 ...    gpu0 gpu1 ...       round the borders)
//
// Tested by preset_test.cpp and torus_test.cpp.

#include "topology/presets.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "topology/cluster.hpp"

namespace penstock {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr double kGB = 1e9;
constexpr double kGbit = 1e9 / 8;
constexpr std::int64_t kMicrosecond = 1000;

// Source: PipeDream (SOSP'19). Section 5.1 describes the servers, cards and networks. Section 2 states 10 to
// 15 GB/s between cards over PCIe, and 30 GB/s over NVLink. For PCIe we use 12 GB/s, which is near the middle
// of this range. Large copies over PCIe 3.0 x16 (15.75 GB/s without protocol) reach it. The "16 GB" or "12
// GB" of a card are units of 2^30 bytes, as usual for memory chips.
constexpr double kPcieBytesPerSecond = 12 * kGB;
constexpr double kNvlink2BytesPerSecond = 30 * kGB;

// Peak rates in fp32, from NVIDIA's V100 data sheet: 14 TFLOP/s for the PCIe card and 15.7 for SXM2 (NVLink).
// There are two different cards with the name "Titan X" (cluster C) and the same memory, so the rate is
// unknown.
constexpr double kV100PcieFlops = 14e12;
constexpr double kV100Sxm2Flops = 15.7e12;

// Source: NVIDIA's H100 SXM and DGX H100 data sheets: 989 TFLOP/s dense bf16, 80 GB, NVLink with 900 GB/s for
// each card in both directions together, and eight 400 Gb/s network ports. In this model a server has one
// uplink for all eight ports. A single transfer between servers can therefore use more than the 50 GB/s of
// one port.
constexpr double kH100Bf16Flops = 989e12;
constexpr double kNvlink4BytesPerSecond = 450 * kGB;
constexpr double kEightPortsBytesPerSecond = 8 * 400 * kGbit;

// None of these sources states latencies, so the values are assumptions. They are of the usual order of
// magnitude for a small message between two cards: over the host's PCIe tree, over NVLink, through NVSwitch,
// with TCP over Ethernet, and with RDMA over InfiniBand.
constexpr std::int64_t kPcieLatencyNs = 5 * kMicrosecond;
constexpr std::int64_t kNvlinkLatencyNs = 3 * kMicrosecond;
constexpr std::int64_t kNvswitchLatencyNs = 3 * kMicrosecond;
constexpr std::int64_t kEthernetLatencyNs = 50 * kMicrosecond;
constexpr std::int64_t kInfinibandLatencyNs = 5 * kMicrosecond;

const std::array kPresets = {
    Preset{
        "pipedream-a",
        "4 servers of 4 V100 16 GB, PCIe 12 GB/s, Ethernet 10 Gb/s (PipeDream, SOSP'19, sections 2 and 5.1)",
        {.nodes = 4,
         .devices_per_node = 4,
         .intra_bytes_per_second = kPcieBytesPerSecond,
         .intra_latency_ns = kPcieLatencyNs,
         .inter_bytes_per_second = 10 * kGbit,
         .inter_latency_ns = kEthernetLatencyNs,
         .memory_bytes = 16 * kGiB,
         .flops_per_second = kV100PcieFlops,
         .name = "pipedream-a"}},
    Preset{"pipedream-b",
           "2 servers of 8 V100 16 GB, NVLink 30 GB/s, Ethernet 25 Gb/s (PipeDream, SOSP'19, sections 2 and "
           "5.1)",
           {.nodes = 2,
            .devices_per_node = 8,
            .intra_bytes_per_second = kNvlink2BytesPerSecond,
            .intra_latency_ns = kNvlinkLatencyNs,
            .inter_bytes_per_second = 25 * kGbit,
            .inter_latency_ns = kEthernetLatencyNs,
            .memory_bytes = 16 * kGiB,
            .flops_per_second = kV100Sxm2Flops,
            .name = "pipedream-b"}},
    Preset{"pipedream-c",
           "4 servers of 1 Titan X 12 GB, PCIe 12 GB/s, Ethernet 40 Gb/s (PipeDream, SOSP'19, sections 2 and "
           "5.1)",
           {.nodes = 4,
            .devices_per_node = 1,
            .intra_bytes_per_second = kPcieBytesPerSecond,
            .intra_latency_ns = kPcieLatencyNs,
            .inter_bytes_per_second = 40 * kGbit,
            .inter_latency_ns = kEthernetLatencyNs,
            .memory_bytes = 12 * kGiB,
            .name = "pipedream-c"}},
    Preset{"dgx-h100",
           "1 server of 8 H100 80 GB, NVSwitch 450 GB/s each way, 8 x 400 Gb/s between servers (NVIDIA data "
           "sheets)",
           {.nodes = 1,
            .devices_per_node = 8,
            .intra_bytes_per_second = kNvlink4BytesPerSecond,
            .intra_latency_ns = kNvswitchLatencyNs,
            .inter_bytes_per_second = kEightPortsBytesPerSecond,
            .inter_latency_ns = kInfinibandLatencyNs,
            .memory_bytes = 80 * kGiB,
            .flops_per_second = kH100Bf16Flops,
            .name = "dgx-h100"}},
};

// TPU v2 and v3: Jouppi et al., "A Domain-Specific Supercomputer for Training Deep Neural Networks", CACM
// 63(7), 2020: 2-D torus; four links on each chip with 496 and 656 Gb/s in each direction; pods of 256 and
// 1024 chips; 16 and 32 GiB; 46 and 123 TFLOP/s bf16. TPU v4: Jouppi et al., "TPU v4", ISCA 2023: 3-D torus
// of 4096 chips; six links on each chip with 50 GB/s; 32 GiB; 275 TFLOP/s bf16.
// An assumption, because neither paper states the latency.
constexpr std::int64_t kIciLatencyNs = kMicrosecond;

const std::array kTorusPresets = {
    TorusPreset{"tpu-v2",
                "pod of 256 TPU v2 16 GB on a 2-D torus, 496 Gb/s a link each way (Jouppi et al., CACM 2020)",
                {.dimensions = {16, 16},
                 .bytes_per_second = 496 * kGbit,
                 .latency_ns = kIciLatencyNs,
                 .memory_bytes = 16 * kGiB,
                 .flops_per_second = 46e12,
                 .name = "tpu-v2"}},
    TorusPreset{
        "tpu-v3",
        "pod of 1024 TPU v3 32 GB on a 2-D torus, 656 Gb/s a link each way (Jouppi et al., CACM 2020)",
        {.dimensions = {32, 32},
         .bytes_per_second = 656 * kGbit,
         .latency_ns = kIciLatencyNs,
         .memory_bytes = 32 * kGiB,
         .flops_per_second = 123e12,
         .name = "tpu-v3"}},
    TorusPreset{"tpu-v4",
                "pod of 4096 TPU v4 32 GB on a 3-D torus, 50 GB/s a link each way (Jouppi et al., ISCA 2023)",
                {.dimensions = {16, 16, 16},
                 .bytes_per_second = 50 * kGB,
                 .latency_ns = kIciLatencyNs,
                 .memory_bytes = 32 * kGiB,
                 .flops_per_second = 275e12,
                 .name = "tpu-v4"}},
};

/// The error in a field, or nothing if the field is valid.
using FieldError = std::optional<std::string>;

FieldError count_error(std::string_view field, std::int32_t value) {
  if (value >= 1) return std::nullopt;
  return fmt::format("{} must be at least 1, found {}", field, value);
}

FieldError bandwidth_error(std::string_view field, double value) {
  if (value > 0) return std::nullopt;
  return fmt::format("{} must be greater than 0, found {}", field, value);
}

FieldError latency_error(std::string_view field, std::int64_t value) {
  if (value >= 0) return std::nullopt;
  return fmt::format("{} must be 0 or more, found {}", field, value);
}

FieldError memory_error(const std::optional<std::int64_t>& value) {
  if (!value || *value > 0) return std::nullopt;
  return fmt::format("memory_bytes must be greater than 0, found {}; leave it out for no limit", *value);
}

FieldError reserve_error(std::int64_t value) {
  if (value >= 0) return std::nullopt;
  return fmt::format("reserved_bytes must be 0 or more, found {}", value);
}

FieldError flops_error(double value) {
  if (value >= 0 && std::isfinite(value)) return std::nullopt;
  return fmt::format("flops_per_second must be 0 (unknown) or more, found {}", value);
}

FieldError first_of(std::initializer_list<FieldError> errors) {
  const auto* const found = std::ranges::find_if(errors, [](const FieldError& e) { return e.has_value(); });
  return found == errors.end() ? std::nullopt : *found;
}

/// Returns an error if a uniform cluster has too many devices. Its links are not stored, so the names of
/// the devices determine the memory.
FieldError uniform_size_error(std::int32_t devices) {
  if (devices <= kMostJoinedDevices) return std::nullopt;
  return fmt::format("devices must be at most {} in a uniform cluster, found {}", kMostJoinedDevices,
                     devices);
}

/// Returns an error if the table of routes of a two-level cluster would be too large. The cluster's nodes
/// are the devices, a switch for each server, and the central switch.
FieldError two_level_size_error(std::int64_t nodes, std::int64_t devices_per_node) {
  const auto devices = nodes * devices_per_node;
  if (devices <= kMostRouteEntries / (devices + nodes + 1)) return std::nullopt;
  return fmt::format(
      "nodes x devices_per_node must leave a table of routes of at most {} entries (about 7600 devices), "
      "found {} x {}",
      kMostRouteEntries, nodes, devices_per_node);
}

/// Returns an error if the stated order of devices is not empty and does not contain each device exactly
/// once.
FieldError order_error(const TwoLevelCluster& shape) {
  if (shape.device_order.empty()) return std::nullopt;
  std::vector<std::int32_t> order = shape.device_order;
  std::ranges::sort(order);
  const std::int32_t devices = shape.nodes * shape.devices_per_node;
  bool names_each_once = std::ssize(order) == devices;
  for (std::int32_t d = 0; names_each_once && d < devices; ++d)
    names_each_once = order[static_cast<std::size_t>(d)] == d;
  if (names_each_once) return std::nullopt;
  return fmt::format("device_order must name each of the devices 0 to {} once, found [{}]", devices - 1,
                     fmt::join(shape.device_order, ", "));
}

FieldError error_of(const UniformCluster& shape) {
  return first_of({count_error("devices", shape.devices),
                   bandwidth_error("bytes_per_second", shape.bytes_per_second),
                   latency_error("latency_ns", shape.latency_ns), memory_error(shape.memory_bytes),
                   reserve_error(shape.reserved_bytes), flops_error(shape.flops_per_second),
                   uniform_size_error(shape.devices)});
}

FieldError error_of(const TwoLevelCluster& shape) {
  auto fields =
      first_of({count_error("nodes", shape.nodes), count_error("devices_per_node", shape.devices_per_node),
                bandwidth_error("intra_bytes_per_second", shape.intra_bytes_per_second),
                latency_error("intra_latency_ns", shape.intra_latency_ns),
                bandwidth_error("inter_bytes_per_second", shape.inter_bytes_per_second),
                latency_error("inter_latency_ns", shape.inter_latency_ns), memory_error(shape.memory_bytes),
                reserve_error(shape.reserved_bytes), flops_error(shape.flops_per_second)});
  if (fields) return fields;
  // The order is checked last, because its check multiplies the sizes. The checks before ensure that the
  // product does not overflow.
  auto size = two_level_size_error(shape.nodes, shape.devices_per_node);
  return size ? size : order_error(shape);
}

/// Returns an error if the table of routes of a torus would be too large. The table has an entry for each
/// pair of devices.
FieldError torus_size_error(const std::vector<std::int32_t>& dimensions) {
  if (dimensions.empty()) return "dimensions must name at least one size, found none";
  std::int64_t devices = 1;
  for (const std::int32_t size : dimensions) {
    if (auto error = count_error("each of the dimensions", size)) return error;
    // A product above the limit is not multiplied further, so it cannot overflow.
    devices = devices > kMostRouteEntries ? devices : devices * size;
  }
  if (devices <= kMostRouteEntries / devices) return std::nullopt;
  return fmt::format("dimensions must have at most 8192 devices together, found {}",
                     fmt::join(dimensions, " x "));
}

FieldError error_of(const TorusCluster& shape) {
  return first_of({torus_size_error(shape.dimensions),
                   bandwidth_error("bytes_per_second", shape.bytes_per_second),
                   latency_error("latency_ns", shape.latency_ns), memory_error(shape.memory_bytes),
                   reserve_error(shape.reserved_bytes), flops_error(shape.flops_per_second)});
}

/// Adds a link from each device to the next one in each dimension of the torus. The device after the last
/// one is the first one.
void add_torus_links(ClusterBuilder& builder, const TorusCluster& shape, std::int32_t devices) {
  std::int32_t stride = devices;
  for (const std::int32_t size : shape.dimensions) {
    // In this dimension, the numbers of neighbours differ by stride / size.
    const std::int32_t step = stride / size;
    for (std::int32_t device = 0; device < devices; ++device) {
      const std::int32_t place = device % stride / step;
      // Two devices in a dimension have one link, and a single device has none.
      if (size == 1 || (size == 2 && place == 1)) continue;
      const std::int32_t next = device + ((place + 1) % size - place) * step;
      builder.add_duplex_link(device, next, shape.bytes_per_second, shape.latency_ns);
    }
    stride = step;
  }
}

/// Returns `name` in lower case, without '-' and '_', for comparisons.
std::string key(std::string_view name) {
  std::string result;
  for (const unsigned char c : name) {
    if (c != '-' && c != '_') result += static_cast<char>(std::tolower(c));
  }
  return result;
}

}  // namespace

tl::expected<Cluster, std::string> uniform_cluster(const UniformCluster& shape) {
  if (const auto error = error_of(shape)) return tl::unexpected("uniform cluster: " + *error);
  std::vector<Device> devices;
  devices.reserve(static_cast<std::size_t>(shape.devices));
  for (std::int32_t i = 0; i < shape.devices; ++i) {
    devices.push_back(
        {fmt::format("gpu{}", i), shape.memory_bytes, shape.reserved_bytes, shape.flops_per_second});
  }
  return Cluster::fully_joined("uniform", std::move(devices), shape.bytes_per_second, shape.latency_ns);
}

tl::expected<Cluster, std::string> two_level_cluster(const TwoLevelCluster& shape) {
  if (const auto error = error_of(shape)) return tl::unexpected("two-level cluster: " + *error);
  // If a latency is odd, the downward half gets the additional nanosecond, so that every route has the exact
  // latency.
  const auto intra_up_ns = shape.intra_latency_ns / 2;
  const auto intra_down_ns = shape.intra_latency_ns - intra_up_ns;
  const auto inter_up_ns = shape.inter_latency_ns / 2;
  const auto inter_down_ns = shape.inter_latency_ns - inter_up_ns;
  ClusterBuilder builder(shape.name);
  std::vector<std::int32_t> servers;
  servers.reserve(static_cast<std::size_t>(shape.nodes));
  for (std::int32_t node = 0; node < shape.nodes; ++node)
    servers.push_back(builder.add_switch(fmt::format("node{}", node)));
  for (std::int32_t d = 0; d < shape.nodes * shape.devices_per_node; ++d) {
    const auto number = shape.device_order.empty() ? d : shape.device_order[static_cast<std::size_t>(d)];
    const auto node = number / shape.devices_per_node;
    const auto server = servers[static_cast<std::size_t>(node)];
    const auto device =
        builder.add_device({fmt::format("node{}/gpu{}", node, number % shape.devices_per_node),
                            shape.memory_bytes, shape.reserved_bytes, shape.flops_per_second});
    builder.add_link(device, server, shape.intra_bytes_per_second, intra_up_ns);
    builder.add_link(server, device, shape.intra_bytes_per_second, intra_down_ns);
  }
  // A single server needs no central switch.
  if (shape.nodes == 1) return builder.build();
  const auto central = builder.add_switch("central");
  for (const auto server : servers) {
    builder.add_link(server, central, shape.inter_bytes_per_second, inter_up_ns);
    builder.add_link(central, server, shape.inter_bytes_per_second, inter_down_ns);
  }
  return builder.build();
}

tl::expected<Cluster, std::string> torus_cluster(const TorusCluster& shape) {
  if (const auto error = error_of(shape)) return tl::unexpected("torus: " + *error);
  std::int32_t devices = 1;
  for (const std::int32_t size : shape.dimensions) devices *= size;
  ClusterBuilder builder(shape.name);
  for (std::int32_t device = 0; device < devices; ++device) {
    std::vector<std::int32_t> place(shape.dimensions.size());
    std::int32_t rest = device;
    for (std::size_t i = place.size(); i-- > 0; rest /= shape.dimensions[i])
      place[i] = rest % shape.dimensions[i];
    builder.add_device({fmt::format("chip{}", fmt::join(place, "-")), shape.memory_bytes,
                        shape.reserved_bytes, shape.flops_per_second});
  }
  add_torus_links(builder, shape, devices);
  builder.set_torus({.dimensions = shape.dimensions, .collectives = shape.collectives});
  return builder.build();
}

std::vector<std::string_view> cluster_presets() {
  std::vector<std::string_view> names = {"uniform", "two-level", "torus"};
  for (const Preset& preset : kPresets) names.push_back(preset.name);
  for (const TorusPreset& preset : kTorusPresets) names.push_back(preset.name);
  return names;
}

std::span<const TorusPreset> torus_presets() { return kTorusPresets; }

const TorusPreset* find_torus_preset(std::string_view name) {
  const auto* const found =
      std::ranges::find(kTorusPresets, key(name), [](const TorusPreset& preset) { return key(preset.name); });
  return found == kTorusPresets.end() ? nullptr : found;
}

std::span<const Preset> presets() { return kPresets; }

const Preset* find_preset(std::string_view name) {
  const std::string_view cluster = "cluster";
  auto wanted = key(name);
  const bool has_cluster = wanted.starts_with(cluster);
  if (has_cluster) wanted.erase(0, cluster.size());
  const auto* const found = std::ranges::find_if(kPresets, [&](const Preset& preset) {
    // The PipeDream paper calls one of its clusters "Cluster-A". So "cluster-a" is accepted as a name, but
    // the letter "a" alone is not.
    return key(preset.name) == wanted || (has_cluster && key(preset.name) == "pipedream" + wanted);
  });
  return found == kPresets.end() ? nullptr : found;
}

}  // namespace penstock
