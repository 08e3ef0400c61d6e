// `cluster:` is a preset with its parameters, or devices, switches and links one by one. Each preset is one
// function that names the keys it knows and reads them; whatever else stands there is an error that says
// which key was meant.

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

#include "scenarios/read/cluster_spec.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/reader.hpp"
#include "scenarios/read/schema.hpp"
#include "schedules/ir/nearest_name.hpp"
#include "text/numbers.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

constexpr std::int64_t kMostDevices = 1 << 20;

// --- presets --------------------------------------------------------------------------------------------

ClusterSpec read_uniform(const Node& node, Problem& problem) {
  static constexpr std::array<std::string_view, 8> kKeys = {"preset", "devices", "bandwidth", "latency",
                                                            "memory", "reserve", "flops",     "price"};
  const MappingReader reader(node, "cluster", kKeys, problem);
  UniformCluster shape;
  shape.devices =
      static_cast<std::int32_t>(reader.integer("devices", {.least = 1, .most = kMostDevices}).value_or(0));
  shape.bytes_per_second = reader.bandwidth("bandwidth").value_or(kUnlimitedBandwidth);
  shape.latency_ns = reader.duration("latency").value_or(0);
  shape.memory_bytes = reader.limit("memory");
  shape.reserved_bytes = read_reserve(reader, shape.memory_bytes).value_or(0);
  shape.flops_per_second = reader.flops("flops").value_or(0);
  return {.shape = shape, .name = "uniform", .price_per_device_hour = read_price(reader)};
}

/// A two-level cluster: the preset's figures where the mapping gives none.
ClusterSpec read_two_level(const Node& node, TwoLevelCluster shape, std::string name, Problem& problem) {
  static constexpr std::array<std::string_view, 12> kKeys = {
      "preset",        "nodes",  "devices_per_node", "intra_bandwidth", "intra_latency", "inter_bandwidth",
      "inter_latency", "memory", "reserve",          "flops",           "device_order",  "price"};
  const MappingReader reader(node, "cluster", kKeys, problem);
  const Range devices{.least = 1, .most = kMostDevices};
  shape.nodes = static_cast<std::int32_t>(reader.integer("nodes", devices).value_or(shape.nodes));
  shape.devices_per_node =
      static_cast<std::int32_t>(reader.integer("devices_per_node", devices).value_or(shape.devices_per_node));
  shape.intra_bytes_per_second = reader.bandwidth("intra_bandwidth").value_or(shape.intra_bytes_per_second);
  shape.intra_latency_ns = reader.duration("intra_latency").value_or(shape.intra_latency_ns);
  shape.inter_bytes_per_second = reader.bandwidth("inter_bandwidth").value_or(shape.inter_bytes_per_second);
  shape.inter_latency_ns = reader.duration("inter_latency").value_or(shape.inter_latency_ns);
  if (reader.has("memory")) shape.memory_bytes = reader.limit("memory");
  shape.reserved_bytes = read_reserve(reader, shape.memory_bytes).value_or(0);
  shape.flops_per_second = reader.flops("flops").value_or(shape.flops_per_second);
  shape.device_order = reader.integers("device_order", {.least = 0, .most = kMostDevices});
  return {.shape = std::move(shape), .name = std::move(name), .price_per_device_hour = read_price(reader)};
}

/// Returns the message about a preset that does not exist, with the name that was likely meant.
std::string unknown_preset(const Node& node) {
  std::vector<std::string_view> names = {"uniform", "two-level"};
  for (const Preset& preset : presets()) names.push_back(preset.name);
  return fmt::format("expected one of {}, got {}{}", listed(names), describe(node),
                     did_you_mean(node.text, names));
}

// --- explicit clusters ----------------------------------------------------------------------------------

/// Node numbers of a ClusterBuilder by the names of the file.
using NodeNames = std::unordered_map<std::string, std::int32_t>;

/// A name, or a mapping; devices without one are gpu0, gpu1, ..
Device read_device(const Node& node, std::size_t index, Problem& problem) {
  if (node.kind == Node::Kind::scalar) {
    Device device;
    device.name = node.text;
    return device;
  }
  static constexpr std::array<std::string_view, 3> kKeys = {"name", "memory", "flops"};
  const MappingReader reader(node, fmt::format("cluster.devices.{}", index), kKeys, problem);
  Device device;
  device.name = reader.word("name").value_or(fmt::format("gpu{}", index));
  device.memory_bytes = reader.limit("memory");
  device.flops_per_second = reader.flops("flops").value_or(0);
  return device;
}

void add_name(NodeNames& names, const std::string& name, std::int32_t number, const Node& node,
              const std::string& path, Problem& problem) {
  if (!names.emplace(name, number).second) {
    problem.note(node, path, fmt::format("the name \"{}\" is given to two devices or switches", name));
  }
}

/// The builder's number of a name; 0, with a problem noted, of one that is not there.
std::int32_t end_of_link(const Node& end, const NodeNames& names, const std::string& path, Problem& problem) {
  const auto found = names.find(end.text);
  if (end.kind == Node::Kind::scalar && found != names.end()) return found->second;
  problem.note(end, path, "expected the name of a device or switch, got " + describe(end));
  return 0;
}

/// `between` two names; both ways unless `duplex: off`, which is from the first to the second alone.
void add_link(ClusterBuilder& builder, const NodeNames& names, const Node& node, std::size_t index,
              Problem& problem) {
  static constexpr std::array<std::string_view, 4> kKeys = {"between", "bandwidth", "latency", "duplex"};
  const std::string path = fmt::format("cluster.links.{}", index);
  const MappingReader reader(node, path, kKeys, problem);
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
  static constexpr std::array<std::string_view, 6> kKeys = {"name",  "devices", "switches",
                                                            "links", "reserve", "price"};
  const MappingReader reader(node, "cluster", kKeys, problem);
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
  // Links to node 0 in the place of names that are not there would be faults of their own.
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

ClusterSpec read_cluster(const Node& node, Problem& problem) {
  if (node.find("device") != nullptr) return read_device_cluster(node, problem);
  const Node* preset_node = node.find("preset");
  const Node* devices = node.find("devices");
  // A list of devices is a cluster of its own; a number of them belongs to a preset.
  if (preset_node == nullptr && devices != nullptr && devices->kind == Node::Kind::list) {
    return read_explicit(node, problem);
  }
  if (preset_node == nullptr || preset_node->text == "uniform") return read_uniform(node, problem);
  if (preset_node->text == "two-level") return read_two_level(node, {}, "two-level", problem);
  if (const Preset* preset = find_preset(preset_node->text)) {
    return read_two_level(node, preset->shape, std::string(preset->name), problem);
  }
  problem.note(*preset_node, "cluster.preset", unknown_preset(*preset_node));
  return {};
}

}  // namespace penstock
