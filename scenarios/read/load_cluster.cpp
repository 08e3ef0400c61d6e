// Reads `cluster:`, which is a preset with parameters, or a list of devices, switches and links. Each preset
// has one function, which reads the keys of this preset. Any other key is an error with a hint to a similar
// key.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/read/document.hpp"
#include "scenarios/read/reader.hpp"
#include "scenarios/read/scenario.hpp"
#include "scenarios/read/schema.hpp"
#include "schedules/ir/cost_table.hpp"
#include "text/enum_words.hpp"
#include "text/numbers.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

constexpr std::int64_t kMostDevices = 1 << 20;

// --- presets --------------------------------------------------------------------------------------------

constexpr Range kDeviceRange{.least = 1, .most = kMostDevices};

constexpr Key kUniformPresetKey{.name = "preset",
                                .kind = KeyKind::other,
                                .meaning = "States that the cluster is uniform.",
                                .usual = "uniform",
                                .form = "uniform",
                                .schema = R"({"const": "uniform"})"};
constexpr Key kTwoLevelPresetKey{
    .name = "preset",
    .kind = KeyKind::other,
    .meaning = "The name of the preset.",
    .usual = "required",
    .form = "two-level, pipedream-a, pipedream-b, pipedream-c, dgx-h100",
    .schema = R"({"type": "string", "not": {"enum": ["uniform", "torus", "tpu-v2", "tpu-v3", "tpu-v4"]}})"};
constexpr Key kTorusPresetKey{.name = "preset",
                              .kind = KeyKind::other,
                              .meaning = "The name of the preset.",
                              .usual = "required",
                              .form = "torus, tpu-v2, tpu-v3, tpu-v4",
                              .schema = R"({"enum": ["torus", "tpu-v2", "tpu-v3", "tpu-v4"]})"};
constexpr Key kPriceKey{.name = "price",
                        .kind = KeyKind::number,
                        .meaning = "What a device costs for an hour, in any money.",
                        .usual = "no costs are printed"};
constexpr Key kReserveKey{.name = "reserve",
                          .kind = KeyKind::bytes,
                          .meaning = "Bytes of each device's memory that no plan may use.",
                          .usual = "0"};

constexpr auto kHostLinkFields = std::to_array<Field<HostLink>>({
    field<&HostLink::bytes_per_second>(
        {.name = "bandwidth",
         .kind = KeyKind::bandwidth,
         .meaning = "Bandwidth between a device and its host's memory, in each direction.",
         .usual = "unlimited"}),
    field<&HostLink::latency_ns>(
        {.name = "latency", .kind = KeyKind::duration, .meaning = "Latency of each copy.", .usual = "0"}),
    field<&HostLink::duplex>({.name = "duplex",
                              .kind = KeyKind::flag,
                              .meaning = "Both directions copy at once; otherwise copies follow each other.",
                              .usual = "true"}),
});
constexpr auto kHostLinkKeys = keys_of(kHostLinkFields);

constexpr auto kUniformFields = std::to_array<Field<UniformCluster>>({
    unbound<UniformCluster>(kUniformPresetKey),
    field<&UniformCluster::devices>({.name = "devices",
                                     .kind = KeyKind::integer,
                                     .meaning = "The number of devices.",
                                     .usual = "as many as there are ranks",
                                     .range = kDeviceRange}),
    field<&UniformCluster::bytes_per_second>(
        {.name = "bandwidth",
         .kind = KeyKind::bandwidth,
         .meaning = "Bandwidth of the link of each ordered pair of devices.",
         .usual = "unlimited"}),
    field<&UniformCluster::latency_ns>(
        {.name = "latency", .kind = KeyKind::duration, .meaning = "Latency of each link.", .usual = "0"}),
    field<&UniformCluster::memory_bytes>(
        {.name = "memory", .kind = KeyKind::limit, .meaning = "Memory of a device.", .usual = "unlimited"}),
    unbound<UniformCluster>(kReserveKey),
    field<&UniformCluster::flops_per_second>({.name = "flops",
                                              .kind = KeyKind::rate,
                                              .meaning = "Peak rate of a device, which a transformer takes.",
                                              .usual = "unknown"}),
    unbound<UniformCluster>(kHostLinkKey),
    unbound<UniformCluster>(kPriceKey),
});

constexpr auto kTwoLevelFields = std::to_array<Field<TwoLevelCluster>>({
    unbound<TwoLevelCluster>(kTwoLevelPresetKey),
    field<&TwoLevelCluster::nodes>({.name = "nodes",
                                    .kind = KeyKind::integer,
                                    .meaning = "The number of servers.",
                                    .usual = "1, or the preset's",
                                    .range = kDeviceRange}),
    field<&TwoLevelCluster::devices_per_node>({.name = "devices_per_node",
                                               .kind = KeyKind::integer,
                                               .meaning = "Devices of one server.",
                                               .usual = "1, or the preset's",
                                               .range = kDeviceRange}),
    field<&TwoLevelCluster::intra_bytes_per_second>(
        {.name = "intra_bandwidth",
         .kind = KeyKind::bandwidth,
         .meaning = "Bandwidth of a device's link inside its server, each way.",
         .usual = "unlimited, or the preset's"}),
    field<&TwoLevelCluster::intra_latency_ns>({.name = "intra_latency",
                                               .kind = KeyKind::duration,
                                               .meaning = "Latency of a route inside a server.",
                                               .usual = "0, or the preset's"}),
    field<&TwoLevelCluster::inter_bytes_per_second>({.name = "inter_bandwidth",
                                                     .kind = KeyKind::bandwidth,
                                                     .meaning = "Bandwidth of a server's uplink, each way.",
                                                     .usual = "unlimited, or the preset's"}),
    field<&TwoLevelCluster::inter_latency_ns>({.name = "inter_latency",
                                               .kind = KeyKind::duration,
                                               .meaning = "Latency of the two uplinks of a route together.",
                                               .usual = "0, or the preset's"}),
    field<&TwoLevelCluster::memory_bytes>({.name = "memory",
                                           .kind = KeyKind::limit,
                                           .meaning = "Memory of a device.",
                                           .usual = "unlimited, or the preset's"}),
    unbound<TwoLevelCluster>(kReserveKey),
    field<&TwoLevelCluster::flops_per_second>({.name = "flops",
                                               .kind = KeyKind::rate,
                                               .meaning = "Peak rate of a device, which a transformer takes.",
                                               .usual = "unknown, or the preset's"}),
    field<&TwoLevelCluster::device_order>(
        {.name = "device_order",
         .kind = KeyKind::integer,
         .meaning = "Device d of the cluster is number device_order[d], counted server by server.",
         .usual = "in that order",
         .range = {.least = 0, .most = kMostDevices},
         .values = KeyValues::list}),
    unbound<TwoLevelCluster>(kHostLinkKey),
    unbound<TwoLevelCluster>(kPriceKey),
});

constexpr auto kTorusFields = std::to_array<Field<TorusCluster>>({
    unbound<TorusCluster>(kTorusPresetKey),
    field<&TorusCluster::dimensions>({.name = "dims",
                                      .kind = KeyKind::integer,
                                      .meaning = "Devices along each dimension, such as [4, 4].",
                                      .usual = "required, or the preset's",
                                      .range = kDeviceRange,
                                      .values = KeyValues::list}),
    field<&TorusCluster::bytes_per_second>({.name = "bandwidth",
                                            .kind = KeyKind::bandwidth,
                                            .meaning = "Bandwidth of each link, each way.",
                                            .usual = "unlimited, or the preset's"}),
    field<&TorusCluster::latency_ns>({.name = "latency",
                                      .kind = KeyKind::duration,
                                      .meaning = "Latency of each link.",
                                      .usual = "0, or the preset's"}),
    field<&TorusCluster::memory_bytes>({.name = "memory",
                                        .kind = KeyKind::limit,
                                        .meaning = "Memory of a device.",
                                        .usual = "unlimited, or the preset's"}),
    unbound<TorusCluster>(kReserveKey),
    field<&TorusCluster::flops_per_second>({.name = "flops",
                                            .kind = KeyKind::rate,
                                            .meaning = "Peak rate of a device, which a transformer takes.",
                                            .usual = "unknown, or the preset's"}),
    field<&TorusCluster::collectives>(
        {.name = "collectives",
         .kind = KeyKind::word,
         .meaning =
             "dimensions: a ring in each dimension in turn; ring: one ring through all devices. Groups that "
             "are no grid take one ring.",
         .usual = "dimensions"}),
    unbound<TorusCluster>(kHostLinkKey),
    unbound<TorusCluster>(kPriceKey),
});

constexpr auto kUniformKeys = keys_of(kUniformFields);
constexpr auto kTorusKeys = keys_of(kTorusFields);
constexpr auto kTwoLevelKeys = keys_of(kTwoLevelFields);

ClusterSpec read_uniform(const Node& node, Problem& problem) {
  const MappingReader reader(node, "cluster", kUniformKeys, problem);
  // A cluster with 0 devices later gets one device for each rank of the program.
  UniformCluster shape{.devices = 0};
  read_fields(reader, kUniformFields, shape);
  shape.reserved_bytes = read_reserve(reader, shape.memory_bytes).value_or(0);
  return {.shape = shape, .name = "uniform", .price_per_device_hour = read_price(reader)};
}

/// Reads a two-level cluster. `shape` contains the values of the preset. Values that the mapping states
/// replace them.
ClusterSpec read_two_level(const Node& node, TwoLevelCluster shape, std::string name, Problem& problem) {
  const MappingReader reader(node, "cluster", kTwoLevelKeys, problem);
  read_fields(reader, kTwoLevelFields, shape);
  shape.reserved_bytes = read_reserve(reader, shape.memory_bytes).value_or(0);
  return {.shape = std::move(shape), .name = std::move(name), .price_per_device_hour = read_price(reader)};
}

/// Reads a torus. `shape` contains the values of the preset. Values that the mapping states replace them.
ClusterSpec read_torus(const Node& node, TorusCluster shape, Problem& problem) {
  const MappingReader reader(node, "cluster", kTorusKeys, problem);
  read_fields(reader, kTorusFields, shape);
  if (shape.dimensions.empty() && !problem.found())
    reader.complain("dims", "expected the devices along each dimension, such as [4, 4], got nothing");
  shape.reserved_bytes = read_reserve(reader, shape.memory_bytes).value_or(0);
  if (problem.found()) return {};
  auto cluster = torus_cluster(shape);
  if (!cluster) {
    problem.note(node, "cluster", cluster.error());
    return {};
  }
  return {.shape = *std::move(cluster),
          .name = std::move(shape.name),
          .price_per_device_hour = read_price(reader)};
}

/// Returns the message about an unknown preset, with a similar known name if there is one.
std::string unknown_preset(const Node& node) {
  const std::vector<std::string_view> names = cluster_presets();
  return fmt::format("expected one of {}, got {}{}", listed(names), describe(node),
                     did_you_mean(node.text, names));
}

// --- explicit clusters ----------------------------------------------------------------------------------

/// The node numbers in a ClusterBuilder, by the names in the file.
using NodeNames = std::unordered_map<std::string, std::int32_t>;

constexpr auto kDeviceFields = std::to_array<Field<Device>>({
    field<&Device::name>({.name = "name",
                          .kind = KeyKind::name,
                          .meaning = "The name of the device, for links and messages.",
                          .usual = "gpu0, gpu1, .."}),
    field<&Device::memory_bytes>(
        {.name = "memory", .kind = KeyKind::limit, .meaning = "Memory of the device.", .usual = "unlimited"}),
    field<&Device::flops_per_second>(
        {.name = "flops", .kind = KeyKind::rate, .meaning = "Peak rate of the device.", .usual = "unknown"}),
});

constexpr std::array kLinkKeys = {
    Key{.name = "between",
        .kind = KeyKind::other,
        .meaning = "The names of the two devices or switches that the link joins.",
        .usual = "required",
        .form = "`[a, b]`",
        .schema = R"({"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2})"},
    Key{.name = "bandwidth",
        .kind = KeyKind::bandwidth,
        .meaning = "Bandwidth of the link.",
        .usual = "unlimited"},
    Key{.name = "latency", .kind = KeyKind::duration, .meaning = "Latency of the link.", .usual = "0"},
    Key{.name = "duplex",
        .kind = KeyKind::flag,
        .meaning =
            "The link carries both ways at once; otherwise it goes from the first to the second alone.",
        .usual = "true"}};

constexpr std::array kExplicitKeys = {
    Key{.name = "name",
        .kind = KeyKind::name,
        .meaning = "The name of the cluster, for messages.",
        .usual = "explicit"},
    Key{.name = "devices",
        .kind = KeyKind::mappings,
        .meaning = "The devices, each by its name or as a mapping; rank r runs on device r.",
        .usual = "required",
        .form = "a list of names and mappings"},
    Key{.name = "switches", .kind = KeyKind::names, .meaning = "The names of the switches.", .usual = "none"},
    Key{.name = "links",
        .kind = KeyKind::mappings,
        .meaning = "The links among devices and switches.",
        .usual = "none"},
    kReserveKey,
    kHostLinkKey,
    kPriceKey};

constexpr auto kDeviceKeys = keys_of(kDeviceFields);

/// Reads a device, which is a name or a mapping. Devices without a name are called gpu0, gpu1, ..
Device read_device(const Node& node, std::size_t index, Problem& problem) {
  Device device;
  device.name = node.kind == Node::Kind::scalar ? node.text : fmt::format("gpu{}", index);
  if (node.kind == Node::Kind::scalar) return device;
  const MappingReader reader(node, fmt::format("cluster.devices.{}", index), kDeviceKeys, problem);
  read_fields(reader, kDeviceFields, device);
  return device;
}

void add_name(NodeNames& names, const std::string& name, std::int32_t number, const Node& node,
              const std::string& path, Problem& problem) {
  if (!names.emplace(name, number).second) {
    problem.note(node, path, fmt::format("the name \"{}\" is given to two devices or switches", name));
  }
}

/// Returns the node number of a name. For an unknown name it adds an error and returns 0.
std::int32_t end_of_link(const Node& end, const NodeNames& names, const std::string& path, Problem& problem) {
  const auto found = names.find(end.text);
  if (end.kind == Node::Kind::scalar && found != names.end()) return found->second;
  problem.note(end, path, "expected the name of a device or switch, got " + describe(end));
  return 0;
}

/// Adds a link between the two nodes that the key `between` names. The link has both directions. With
/// `duplex: off`, it leads only from the first node to the second.
void add_link(ClusterBuilder& builder, const NodeNames& names, const Node& node, std::size_t index,
              Problem& problem) {
  const std::string path = fmt::format("cluster.links.{}", index);
  const MappingReader reader(node, path, kLinkKeys, problem);
  const Node* between = reader.find("between");
  if (between == nullptr || between->items.size() != 2) {
    reader.complain("between",
                    fmt::format("expected two names [a, b], got {}",
                                between == nullptr                  ? "nothing"
                                : between->kind == Node::Kind::list ? fmt::format("{}", between->items.size())
                                                                    : describe(*between)));
    return;
  }
  const std::int32_t a = end_of_link(between->items[0], names, path + ".between", problem);
  const std::int32_t b = end_of_link(between->items[1], names, path + ".between", problem);
  const double bandwidth = reader.bandwidth("bandwidth").value_or(kUnlimitedBandwidth);
  const std::int64_t latency_ns = reader.duration("latency").value_or(0);
  if (reader.flag("duplex").value_or(true)) {
    builder.add_duplex_link(a, b, bandwidth, latency_ns);
  } else {
    builder.add_link(a, b, bandwidth, latency_ns);
  }
}

ClusterSpec read_explicit(const Node& node, Problem& problem) {
  const MappingReader reader(node, "cluster", kExplicitKeys, problem);
  const std::string name = reader.word("name").value_or("explicit");
  ClusterBuilder builder(name);
  NodeNames names;
  const std::vector<Node>& devices = reader.find("devices")->items;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    Device device = read_device(devices[i], i, problem);
    device.reserved_bytes = read_reserve(reader, device.memory_bytes).value_or(0);
    add_name(names, device.name, builder.add_device(device), devices[i], fmt::format("cluster.devices.{}", i),
             problem);
  }
  for (const std::string& switch_name : reader.words("switches").value_or(std::vector<std::string>{})) {
    add_name(names, switch_name, builder.add_switch(switch_name), *reader.find("switches"),
             "cluster.switches", problem);
  }
  if (const Node* links = reader.find("links")) {
    if (links->kind != Node::Kind::list)
      reader.complain("links", "expected a list of links, got " + describe(*links));
    for (std::size_t i = 0; i < links->items.size(); ++i)
      add_link(builder, names, links->items[i], i, problem);
  }
  // Unknown names became node 0, so building the cluster now would report more errors with the same cause.
  if (problem.found()) return {};
  auto cluster = builder.build();
  if (!cluster) {
    problem.note(node, "cluster", cluster.error());
    return {};
  }
  return {.shape = *std::move(cluster), .name = name, .price_per_device_hour = read_price(reader)};
}

}  // namespace

std::optional<std::int64_t> read_reserve(const MappingReader& reader,
                                         std::optional<std::int64_t> memory_bytes) {
  const auto reserve = reader.bytes("reserve");
  if (reserve && memory_bytes && *reserve > *memory_bytes) {
    reader.complain("reserve", fmt::format("expected at most the {} B of memory of a device, got {} B",
                                           *memory_bytes, *reserve));
  }
  return reserve;
}

std::optional<double> read_price(const MappingReader& reader) {
  const auto text = reader.word("price");
  if (!text) return std::nullopt;
  const auto price = finite_number(*text);
  if (price && *price >= 0) return price;
  reader.complain(
      "price",
      fmt::format("expected what a device costs for an hour, a number such as 2.5, got \"{}\"", *text));
  return std::nullopt;
}

HostLink read_host_link(const Node& cluster, Problem& problem) {
  HostLink host;
  const Node* node = cluster.find("host");
  if (node == nullptr) return host;
  const MappingReader reader(*node, "cluster.host", kHostLinkKeys, problem);
  if (!problem.found()) read_fields(reader, kHostLinkFields, host);
  return host;
}

ClusterSpec read_cluster(const Node& node, Problem& problem) {
  if (node.find("device") != nullptr) return read_device_cluster(node, problem);
  if (node.find("groups") != nullptr) return read_grouped_cluster(node, problem);
  if (node.find("machine") != nullptr) return read_machine_cluster(node, problem);
  const Node* preset_node = node.find("preset");
  const Node* devices = node.find("devices");
  // A list of devices describes an explicit cluster, but a number of devices is a parameter of a preset.
  if (preset_node == nullptr && devices != nullptr && devices->kind == Node::Kind::list) {
    return read_explicit(node, problem);
  }
  if (preset_node == nullptr || preset_node->text == "uniform") return read_uniform(node, problem);
  if (preset_node->text == "two-level") return read_two_level(node, {}, "two-level", problem);
  if (const Preset* preset = find_preset(preset_node->text)) {
    return read_two_level(node, preset->shape, std::string(preset->name), problem);
  }
  if (preset_node->text == "torus") return read_torus(node, {}, problem);
  if (const TorusPreset* preset = find_torus_preset(preset_node->text))
    return read_torus(node, preset->shape, problem);
  problem.note(*preset_node, "cluster.preset", unknown_preset(*preset_node));
  return {};
}

std::vector<KeyGroup> cluster_keys() {
  return {
      {.path = "cluster",
       .form = "`preset: uniform`",
       .about = "A dedicated link for each ordered pair of devices: nothing is shared. Without `cluster` "
                "links are "
                "free and each rank has one device without a limit.",
       .keys = {kUniformKeys.begin(), kUniformKeys.end()}},
      {.path = "cluster",
       .form = "`preset: two-level`, or the name of a real cluster",
       .about = "Servers of several devices, joined by one switch. The presets pipedream-a, pipedream-b, "
                "pipedream-c and dgx-h100 are such clusters; a key that stands beside the name replaces the "
                "preset's figure.",
       .keys = {kTwoLevelKeys.begin(), kTwoLevelKeys.end()}},
      {.path = "cluster",
       .form = "`preset: torus`, or the name of a pod",
       .about = "Devices on a grid, each joined to its neighbours in every dimension, round the edges. The "
                "presets "
                "tpu-v2, tpu-v3 and tpu-v4 are whole pods; `dims` takes a slice.",
       .keys = {kTorusKeys.begin(), kTorusKeys.end()}},
      {.path = "cluster.host",
       .about =
           "A copy takes its bytes over the bandwidth, and the latency. Each rank has a queue of its own "
           "for each direction; without `duplex` it has one for both.",
       .keys = {kHostLinkKeys.begin(), kHostLinkKeys.end()}},
      {.path = "cluster", .form = "device by device", .keys = {kExplicitKeys.begin(), kExplicitKeys.end()}},
      {.path = "cluster.devices[]", .keys = {kDeviceKeys.begin(), kDeviceKeys.end()}},
      {.path = "cluster.links[]", .keys = {kLinkKeys.begin(), kLinkKeys.end()}},
      machine_cluster_keys(),
  };
}

}  // namespace penstock
