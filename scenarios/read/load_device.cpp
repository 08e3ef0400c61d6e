// Reads `cluster: {device: h100-sxm, nodes: 8}` and `parallel:`. The device name selects all constants of
// the device. The scenario may replace each of them. If the model states its own costs (stages, layers),
// the cluster becomes a two-level cluster. All devices of an NVLink domain then share one uplink, whose
// rate is the sum of their network cards' rates.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/pricing/chain_costs.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load_architecture.hpp"
#include "scenarios/read/quantities.hpp"
#include "scenarios/read/reader.hpp"
#include "scenarios/read/scenario.hpp"
#include "scenarios/read/schema.hpp"
#include "schedules/ir/action.hpp"
#include "text/numbers.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {
namespace {

using Word = std::string_view;

constexpr Range kNodes{.least = 1, .most = 1 << 20};
constexpr std::int64_t kMostFactor = 100;
constexpr Range kFactor{.least = 0, .most = kMostFactor};
constexpr Range kPart{.least = 0, .most = 1};
constexpr Range kBucket{.least = 1, .most = std::int64_t{1} << 40};

constexpr std::string_view kOwn = "the device's own";

constexpr std::array kDeviceClusterKeys = {
    Key{.name = "device",
        .kind = KeyKind::name,
        .meaning = "The name of the accelerator: a100-sxm, h100-sxm, h200-sxm, b200-sxm, gb200, b300, gb300, "
                   "a800, h800, h20, l40s, mi300x, mi325x or tpu-v5p.",
        .usual = "required"},
    Key{.name = "nodes",
        .kind = KeyKind::integer,
        .meaning = "The number of servers: of 8 devices each, of GB200, GB300 and TPU v5p of 4.",
        .usual = "1",
        .range = kNodes},
    Key{.name = "kernels",
        .kind = KeyKind::mapping,
        .meaning = "Measured kernels of your own in place of the built-in tables.",
        .usual = kOwn},
    Key{.name = "flops", .kind = KeyKind::rate, .meaning = "Peak rate in bf16, above 0.", .usual = kOwn},
    Key{.name = "fp8_flops", .kind = KeyKind::rate, .meaning = "Peak rate in fp8, above 0.", .usual = kOwn},
    Key{.name = "fp4_flops", .kind = KeyKind::rate, .meaning = "Peak rate in fp4, above 0.", .usual = kOwn},
    Key{.name = "memory", .kind = KeyKind::limit, .meaning = "Memory of a device.", .usual = kOwn},
    Key{.name = "reserve",
        .kind = KeyKind::bytes,
        .meaning = "Bytes of each device's memory that no plan may use: for the driver, CUDA, NCCL and gaps.",
        .usual = "the driver's part and device_overhead; 0 for stages, layers and profiles"},
    Key{.name = "device_overhead",
        .kind = KeyKind::bytes,
        .meaning = "Memory of a device that a run takes outside the allocator: CUDA context, NCCL, cuBLAS.",
        .usual = "3 GiB"},
    Key{.name = "nvlink",
        .kind = KeyKind::speed,
        .meaning = "Bandwidth of a device's NVLink, each way.",
        .usual = kOwn},
    Key{.name = "network",
        .kind = KeyKind::speed,
        .meaning = "Bandwidth of a device's network card, each way.",
        .usual = kOwn},
    Key{.name = "memory_bandwidth",
        .kind = KeyKind::speed,
        .meaning = "Bandwidth of a device's memory.",
        .usual = kOwn},
    Key{.name = "latency",
        .kind = KeyKind::duration,
        .meaning = "Latency of a link and of each step of a ring.",
        .usual = kOwn},
    Key{.name = "nvlink_devices",
        .kind = KeyKind::integer,
        .meaning = "Devices that one NVLink domain joins.",
        .usual = kOwn,
        .range = kNodes},
    Key{.name = "devices_per_node",
        .kind = KeyKind::integer,
        .meaning = "Devices of one server.",
        .usual = kOwn,
        .range = kNodes},
    Key{.name = "sustained",
        .kind = KeyKind::factor,
        .meaning = "Time of matrix products in a training step over their time in a burst.",
        .usual = kOwn,
        .range = kFactor},
    Key{.name = "collectives",
        .kind = KeyKind::factor,
        .meaning = "Time of collectives on NVLink that nothing hides over their time alone.",
        .usual = kOwn,
        .range = kFactor},
    Key{.name = "step_fraction",
        .kind = KeyKind::factor,
        .meaning = "Part of the gradients' reduction over the network that is exposed although computation "
                   "runs beside it.",
        .usual = kOwn,
        .range = kPart},
    Key{.name = "memory_efficiency",
        .kind = KeyKind::factor,
        .meaning = "Part of the memory's bandwidth that kernels reach.",
        .usual = kOwn,
        .range = kPart},
    Key{.name = "nvlink_efficiency",
        .kind = KeyKind::factor,
        .meaning = "Part of NVLink's bandwidth that collectives reach.",
        .usual = kOwn,
        .range = kPart},
    Key{.name = "network_efficiency",
        .kind = KeyKind::factor,
        .meaning = "Part of the network's bandwidth that collectives reach.",
        .usual = kOwn,
        .range = kPart},
    kHostLinkKey,
    Key{.name = "price",
        .kind = KeyKind::number,
        .meaning = "What a device costs for an hour, in any money.",
        .usual = "no costs are printed"}};

constexpr std::array kKernelKeys = {
    Key{.name = "gemm",
        .kind = KeyKind::file,
        .meaning = "A CSV of matrix products. Measured in steps rather than bursts it takes sustained: 1.",
        .usual = kOwn},
    Key{.name = "attention", .kind = KeyKind::file, .meaning = "A CSV of causal attention.", .usual = kOwn},
    Key{.name = "collectives",
        .kind = KeyKind::file,
        .meaning = "A CSV of collectives inside one NVLink domain.",
        .usual = kOwn},
    Key{.name = "products",
        .kind = KeyKind::file,
        .meaning = "A CSV of products in long runs, which take no factor; other shapes go by gemm.",
        .usual = "none"}};

constexpr auto kParallelFields = std::to_array<Field<ParallelPart>>({
    field<&ParallelPart::degrees, &Parallel::tensor>({.name = "tensor",
                                                      .kind = KeyKind::integer,
                                                      .meaning = "Devices that share each layer's weights.",
                                                      .usual = "1",
                                                      .range = kParallelDegree}),
    field<&ParallelPart::degrees, &Parallel::context>({.name = "context",
                                                       .kind = KeyKind::integer,
                                                       .meaning = "Devices that share each sequence.",
                                                       .usual = "1",
                                                       .range = kParallelDegree}),
    field<&ParallelPart::degrees, &Parallel::context_exchange>(
        {.name = "context_exchange",
         .kind = KeyKind::word,
         .meaning = "How the devices of a sequence reach the keys and values of the others.",
         .usual = "ring"}),
    field<&ParallelPart::degrees, &Parallel::expert>({.name = "expert",
                                                      .kind = KeyKind::integer,
                                                      .meaning = "Devices that share the experts of a layer.",
                                                      .usual = "1",
                                                      .range = kParallelDegree}),
    field<&ParallelPart::degrees, &Parallel::expert_dispatch>(
        {.name = "expert_dispatch",
         .kind = KeyKind::word,
         .meaning =
             "How tokens reach their experts: an all-to-all sends a token once for each expert, DeepEP "
             "and Hybrid-EP once to each device and node.",
         .usual = "alltoall"}),
    field<&ParallelPart::degrees, &Parallel::fp8_dispatch>(
        {.name = "fp8_dispatch",
         .kind = KeyKind::flag,
         .meaning = "Tokens go to their experts in 8 bits; results and gradients come back in 16.",
         .usual = "false"}),
    field<&ParallelPart::degrees, &Parallel::expert_overlap>(
        {.name = "expert_overlap",
         .kind = KeyKind::flag,
         .meaning =
             "The exchange of experts runs beside another microbatch's computation: each F and B of the "
             "steady state are one overlapped pair.",
         .usual = "false"}),
    field<&ParallelPart::data>({.name = "data",
                                .kind = KeyKind::integer,
                                .meaning = "Copies of the whole pipeline, of which one is simulated.",
                                .usual = "as many as fill the cluster",
                                .range = kParallelDegree}),
    field<&ParallelPart::degrees, &Parallel::order>(
        {.name = "order",
         .kind = KeyKind::word,
         .meaning = "How devices are numbered, nearest first; what fits on one NVLink uses it, the rest the "
                    "network.",
         .usual = "tp-cp-ep-dp-pp"}),
    field<&ParallelPart::gather>({.name = "gather",
                                  .kind = KeyKind::word,
                                  .meaning = "How often sharding 2 and 3 exchange their parts; of any model.",
                                  .usual = "microbatch"}),
    field<&ParallelPart::degrees, &Parallel::sequence_parallel>(
        {.name = "sequence_parallel",
         .kind = KeyKind::flag,
         .meaning = "What tensor parallelism leaves whole is shared along the sequence.",
         .usual = "true"}),
    field<&ParallelPart::degrees, &Parallel::tensor_overlap>(
        {.name = "tensor_overlap",
         .kind = KeyKind::flag,
         .meaning = "Collectives of tensor parallelism run beside the products.",
         .usual = "true"}),
    field<&ParallelPart::degrees, &Parallel::data_overlap>(
        {.name = "data_overlap",
         .kind = KeyKind::flag,
         .meaning = "Collectives of the copies run beside the computation.",
         .usual = "true"}),
    field<&ParallelPart::degrees, &Parallel::bucket_size>(
        {.name = "bucket_size",
         .kind = KeyKind::integer,
         .meaning = "Gradients or weights that copies exchange in one collective.",
         .usual = "40000000",
         .range = kBucket}),
    field<&ParallelPart::distributed_optimizer>(
        {.name = "distributed_optimizer",
         .kind = KeyKind::flag,
         .meaning =
             "Copies share the optimizer's state (sharding 1); schedule.sharding must not contradict it.",
         .usual = "true"}),
});

constexpr auto kParallelKeys = keys_of(kParallelFields);

/// Returns the stated number, or `usual` if the key is absent. The number must be above 0 and at most `most`.
double number(const MappingReader& reader, Word key, double usual, std::int64_t most) {
  const auto text = reader.word(key);
  if (!text) return usual;
  const auto value = finite_number(*text);
  if (value && *value > 0 && *value <= static_cast<double>(most)) return *value;
  reader.complain(key, fmt::format("expected a number above 0 and at most {}, such as {}, got \"{}\"", most,
                                   usual, *text));
  return usual;
}

/// Returns the stated bandwidth of a device, or `usual` if the key is absent. The value `unlimited` is an
/// error here, because every real device has a bandwidth.
double finite_bandwidth(const MappingReader& reader, Word key, double usual) {
  const double bandwidth = reader.bandwidth(key).value_or(usual);
  if (bandwidth < std::numeric_limits<double>::infinity()) return bandwidth;
  reader.complain(key, "expected the bandwidth of a device, such as 450 GB/s, got \"unlimited\"");
  return usual;
}

/// Returns the stated peak rate of a device, or `usual` if the key is absent. A rate of 0 is an error,
/// because times are operations divided by the rate.
double peak_rate(const MappingReader& reader, Word key, double usual) {
  const auto rate = reader.flops(key);
  if (!rate) return usual;
  if (*rate > 0) return *rate;
  reader.complain(
      key, fmt::format("expected operations a second above 0, such as 989 TFLOP/s, got \"{}\"; leave it "
                       "out for the device's own",
                       reader.word(key).value_or("0")));
  return usual;
}

/// Sets the memory that the device uses outside the allocator, in place of the usual amount. If the user
/// also states `reserve`, this must include that memory.
void read_device_overhead(const MappingReader& reader, DeviceType& type) {
  const auto overhead = reader.bytes("device_overhead");
  if (!overhead) return;
  const auto reserve = reader.bytes("reserve");
  if (reserve && *reserve < *overhead) {
    reader.complain("device_overhead",
                    fmt::format("expected at most cluster.reserve, {} B, which includes it, "
                                "got {} B",
                                *reserve, *overhead));
  }
  type.reserved_bytes += *overhead - kReservedBesideAllocator;
}

/// Returns the device with the rates, memory and other constants that the scenario states. Each of them
/// replaces the constant of the device type.
DeviceType with_stated_figures(DeviceType type, const MappingReader& reader) {
  type.bf16_flops_per_second = peak_rate(reader, "flops", type.bf16_flops_per_second);
  type.fp8_flops_per_second = peak_rate(reader, "fp8_flops", type.fp8_flops_per_second);
  type.fp4_flops_per_second = peak_rate(reader, "fp4_flops", type.fp4_flops_per_second);
  type.memory_bytes_per_second = finite_bandwidth(reader, "memory_bandwidth", type.memory_bytes_per_second);
  type.nvlink_bytes_per_second = finite_bandwidth(reader, "nvlink", type.nvlink_bytes_per_second);
  type.network_bytes_per_second = finite_bandwidth(reader, "network", type.network_bytes_per_second);
  // The device type has one latency for messages and one for the steps of rings. A stated latency replaces
  // both.
  if (const auto latency = reader.duration("latency"))
    type.link_latency_ns = type.nvlink_step_ns = type.network_step_ns = *latency;
  if (reader.has("memory")) {
    type.memory_bytes = reader.limit("memory").value_or(0);
    // A stated memory size already excludes the driver's part, so nothing is reserved for the driver.
    type.reserved_bytes = kReservedBesideAllocator;
  }
  read_device_overhead(reader, type);
  const std::optional<std::int64_t> limit =
      type.memory_bytes > 0 ? std::optional(type.memory_bytes) : std::nullopt;
  type.reserved_bytes = read_reserve(reader, limit).value_or(type.reserved_bytes);
  type.nvlink_devices =
      static_cast<std::int32_t>(reader.integer("nvlink_devices").value_or(type.nvlink_devices));
  type.devices_per_node =
      static_cast<std::int32_t>(reader.integer("devices_per_node").value_or(type.devices_per_node));
  type.sustained = number(reader, "sustained", type.sustained, kMostFactor);
  // The device type has a factor for each precision. A stated factor replaces all of them.
  if (reader.has("sustained")) type.sustained_fp8 = type.sustained_fp4 = type.sustained;
  type.collectives = number(reader, "collectives", type.collectives, kMostFactor);
  type.step_fraction = number(reader, "step_fraction", type.step_fraction, 1);
  type.memory_efficiency = number(reader, "memory_efficiency", type.memory_efficiency, 1);
  type.nvlink_efficiency = number(reader, "nvlink_efficiency", type.nvlink_efficiency, 1);
  type.network_efficiency = number(reader, "network_efficiency", type.network_efficiency, 1);
  return type;
}

/// Returns the two-level cluster for a model that states its own costs. All NVLink domains count as full,
/// even if the last one has fewer devices.
TwoLevelCluster shape_of(const DeviceType& type, std::int64_t devices) {
  // If the cluster is smaller than a domain, all its devices form one domain.
  const auto in_domain = static_cast<std::int32_t>(std::min<std::int64_t>(type.nvlink_devices, devices));
  TwoLevelCluster shape;
  shape.devices_per_node = in_domain;
  shape.nodes = static_cast<std::int32_t>((devices + in_domain - 1) / in_domain);
  shape.intra_bytes_per_second = type.nvlink_bytes_per_second * type.nvlink_efficiency;
  shape.intra_latency_ns = type.link_latency_ns;
  // All network cards of a domain together are its uplink.
  shape.inter_bytes_per_second = type.network_bytes_per_second * type.network_efficiency * in_domain;
  shape.inter_latency_ns = type.link_latency_ns;
  if (type.memory_bytes > 0) shape.memory_bytes = type.memory_bytes;
  shape.flops_per_second = type.bf16_flops_per_second;
  shape.name = type.name;
  return shape;
}

/// A function of KernelTables that reads one table. Its error message has the form "LINE: message".
using ReadTable = std::function<tl::expected<void, std::string>(std::string_view text)>;

/// Reads one table of `kernels:`, which replaces the built-in table.
void read_kernel_table(const MappingReader& reader, Word key, const ReadTable& read) {
  const Node* node = reader.find(key);
  if (node == nullptr) return;
  if (node->kind != Node::Kind::scalar) {
    reader.complain(key, "expected the name of a .csv file, got " + describe(*node));
    return;
  }
  const NamedFile file = named_file(*node);
  const auto text = read_text_file(file.path, file.name);
  if (!text) {
    reader.complain(key, text.error());
    return;
  }
  if (const auto done = read(*text); !done)
    reader.complain(key, fmt::format("{}:{}", file.name, done.error()));
}

/// Returns the device's kernel tables. The files in `kernels: {gemm: FILE, attention: FILE, collectives:
/// FILE, products: FILE}` replace built-in tables. The user must have measured them on the device that the
/// scenario names.
std::shared_ptr<const KernelTables> read_kernels(const MappingReader& cluster, const DeviceType& type,
                                                 Problem& problem) {
  const Node* node = cluster.find("kernels");
  if (node == nullptr) return stated_kernels(type);
  const MappingReader reader(*node, "cluster.kernels", kKernelKeys, problem);
  auto tables = std::make_shared<KernelTables>(*stated_kernels(type));
  const DeviceRates rates = rates_of(type, GemmPrecision::bf16);
  read_kernel_table(reader, "gemm", [&](std::string_view text) { return tables->read_gemms(text, rates); });
  read_kernel_table(reader, "attention", [&](std::string_view text) { return tables->read_attention(text); });
  read_kernel_table(reader, "collectives",
                    [&](std::string_view text) { return tables->read_collectives(text); });
  read_kernel_table(reader, "products", [&](std::string_view text) { return tables->read_products(text); });
  return tables;
}

constexpr std::array kGroupedKeys = {
    Key{.name = "groups",
        .kind = KeyKind::mappings,
        .meaning = "The kinds of devices in the order of the ranks.",
        .usual = "required",
        .form = "a list of mappings"},
    Key{.name = "group_order",
        .kind = KeyKind::word,
        .meaning = "The order in which the ranks go through the list: from its first group or from its last.",
        .usual = "stated",
        .words = words_of<GroupOrder>()},
    kHostLinkKey,
    Key{.name = "price",
        .kind = KeyKind::number,
        .meaning = "What a device costs for an hour on average, in any money.",
        .usual = "no costs are printed"}};

/// The keys that one group of equal devices may have. Only the whole cluster may state the price and the
/// connection to hosts.
constexpr std::span<const Key> kGroupKeys =
    std::span(kDeviceClusterKeys).first<kDeviceClusterKeys.size() - 2>();

/// Reads one kind of device and the number of its servers. Returns nothing if it records a problem.
std::optional<DeviceCluster> read_named_devices(const MappingReader& reader, Problem& problem) {
  const auto name = reader.word("device");
  if (!name) reader.complain("device", "expected the name of an accelerator, such as h100-sxm, got nothing");
  const DeviceType* type = name ? find_device_type(*name) : nullptr;
  if (name && type == nullptr) reader.complain("device", unknown_device(*name));
  if (type == nullptr) return std::nullopt;
  DeviceCluster named{.type = with_stated_figures(*type, reader),
                      .nodes = static_cast<std::int32_t>(reader.integer("nodes").value_or(1))};
  constexpr std::int64_t kMostNamedDevices = std::numeric_limits<std::int32_t>::max();
  if (named.device_count() > kMostNamedDevices) {
    reader.complain("nodes", fmt::format("expected at most {} devices in all, got {} nodes of {}",
                                         kMostNamedDevices, named.nodes, named.type.devices_per_node));
    return std::nullopt;
  }
  named.kernels = read_kernels(reader, named.type, problem);
  named.states_reserve = reader.has("reserve");
  return named;
}

/// Adds the NVLink domains of a group of devices to a cluster. The switch `central` joins the domains.
void add_group(ClusterBuilder& builder, std::int32_t central, const TwoLevelCluster& shape,
               std::size_t group) {
  for (std::int32_t domain = 0; domain < shape.nodes; ++domain) {
    const std::string name = fmt::format("{}.{}/node{}", shape.name, group, domain);
    const std::int32_t hub = builder.add_switch(name);
    builder.add_duplex_link(hub, central, shape.inter_bytes_per_second, shape.inter_latency_ns / 2);
    for (std::int32_t i = 0; i < shape.devices_per_node; ++i) {
      const std::int32_t device = builder.add_device({.name = fmt::format("{}/gpu{}", name, i),
                                                      .memory_bytes = shape.memory_bytes,
                                                      .reserved_bytes = shape.reserved_bytes,
                                                      .flops_per_second = shape.flops_per_second});
      builder.add_duplex_link(device, hub, shape.intra_bytes_per_second, shape.intra_latency_ns / 2);
    }
  }
}

/// Returns the cluster of several groups of devices, whose domains one switch joins.
tl::expected<Cluster, std::string> grouped_shape(const std::vector<DeviceCluster>& groups) {
  ClusterBuilder builder("groups");
  const std::int32_t central = builder.add_switch("central");
  for (std::size_t i = 0; i < groups.size(); ++i) {
    TwoLevelCluster shape = shape_of(groups[i].type, groups[i].device_count());
    if (groups[i].states_reserve) shape.reserved_bytes = groups[i].type.reserved_bytes;
    add_group(builder, central, shape, i);
  }
  return builder.build();
}

}  // namespace

ClusterSpec with_group_order(ClusterSpec spec, GroupOrder order) {
  if (spec.groups.empty() || spec.group_order == order) return spec;
  spec.group_order = order;
  std::ranges::reverse(spec.groups);
  spec.named = spec.groups.front();
  spec.built.reset();
  // The groups were read, and their order does not matter for any limit of a cluster.
  spec.shape = grouped_shape(spec.groups).value();
  return spec;
}

ClusterSpec read_grouped_cluster(const Node& node, Problem& problem) {
  const MappingReader reader(node, "cluster", kGroupedKeys, problem);
  const Node& list = *reader.find("groups");
  if (list.kind != Node::Kind::list || list.items.empty()) {
    reader.complain(
        "groups", "expected a list of groups, such as [{device: h100-sxm, nodes: 2}], got " + describe(list));
    return {};
  }
  ClusterSpec spec{.name = "groups", .price_per_device_hour = read_price(reader)};
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    const MappingReader group(list.items[i], fmt::format("cluster.groups.{}", i), kGroupKeys, problem);
    if (auto named = read_named_devices(group, problem)) spec.groups.push_back(*std::move(named));
  }
  const GroupOrder order = reader.choice<GroupOrder>("group_order").value_or(GroupOrder::stated);
  if (problem.found()) return {};
  auto cluster = grouped_shape(spec.groups);
  if (!cluster) {
    problem.note(node, "cluster", cluster.error());
    return {};
  }
  spec.shape = *std::move(cluster);
  spec.named = spec.groups.front();
  return with_group_order(std::move(spec), order);
}

ClusterSpec read_device_cluster(const Node& node, Problem& problem) {
  if (const Node* preset = node.find("preset")) {
    problem.note(*preset, "cluster.preset", "expected either a preset or a device, got both");
    return {};
  }
  const MappingReader reader(node, "cluster", kDeviceClusterKeys, problem);
  auto named = read_named_devices(reader, problem);
  if (!named) return {};
  TwoLevelCluster shape = shape_of(named->type, named->device_count());
  // Models that state their own costs also state all memory that they use. So only a stated reserve is
  // subtracted.
  if (reader.has("reserve")) shape.reserved_bytes = named->type.reserved_bytes;
  return {.shape = std::move(shape),
          .name = named->type.name,
          .price_per_device_hour = read_price(reader),
          .named = std::move(named)};
}

ParallelPart read_parallel(const Node& node, Problem& problem) {
  const MappingReader reader(node, "parallel", kParallelKeys, problem);
  ParallelPart part{.degrees = {}, .place = fmt::format("{}: parallel", place_of(node))};
  read_fields(reader, kParallelFields, part);
  part.degrees.data = part.data.value_or(1);
  part.degrees.sharding = part.distributed_optimizer.value_or(true) ? 1 : 0;
  part.states_order = reader.has("order");
  return part;
}

std::vector<KeyGroup> device_cluster_keys() {
  return {
      {.path = "cluster",
       .form = "`device: NAME`",
       .about =
           "Servers of a known accelerator. A transformer or a configuration of Hugging Face is priced on it "
           "from measured kernels; models of stages or layers see NVLink domains whose network cards make "
           "one uplink.\n\n"
           "The built-in tables are those of the device as it is sold. Where a scenario states `flops`, "
           "`fp8_flops`, `fp4_flops`, `nvlink` or `nvlink_efficiency`, products and attention reach the same "
           "part of the stated peak, and collectives inside NVLink take as much longer or shorter, but for "
           "their latency. Tables of your own are taken as they are. A800, H800, H20, L40S, MI300X, MI325X "
           "and "
           "TPU v5p have no measured tables; they are priced in this way from those of A100 or H100, and a "
           "note "
           "says so.\n\n"
           "What fits is what `memory` less `reserve` holds, in every command; predicted peaks are those of "
           "the allocator. The driver's part is the memory of the device less the total that nvidia-smi "
           "shows, and none of a stated `memory`.",
       .keys = {kDeviceClusterKeys.begin(), kDeviceClusterKeys.end()}},
      {.path = "cluster",
       .form = "`groups: [..]`",
       .about =
           "Servers of several known accelerators. The first stages are on the first group, and so on "
           "(`group_order: reversed` begins with the last): a stage, "
           "with all of its copies, is on devices of one kind. Each stage is priced on its own devices, and "
           "layers "
           "are balanced by these prices unless `schedule.layer_split` says otherwise. Stages on devices of "
           "different kinds send over the slower network of both.",
       .keys = {kGroupedKeys.begin(), kGroupedKeys.end()}},
      {.path = "cluster.groups[]",
       .about = "The keys of `device: NAME`, but for the price.",
       .keys = {kGroupKeys.begin(), kGroupKeys.end()}},
      {.path = "cluster.groups[].kernels",
       .about = "Files in the form of scenarios/library/kernels.",
       .keys = {kKernelKeys.begin(), kKernelKeys.end()}},
      {.path = "cluster.kernels",
       .about = "Files in the form of scenarios/library/kernels.",
       .keys = {kKernelKeys.begin(), kKernelKeys.end()}},
  };
}

std::vector<KeyGroup> parallel_keys() {
  return {{.path = "parallel",
           .about =
               "How a model on named devices is laid over them. A rank is tensor x context devices, and its "
               "figures are those of one device. Fitted costs take `tensor` and `data`; `gather` goes with "
               "any model.\n\n"
               "`gather: microbatch`: each microbatch scatters its gradients and, under sharding 3, gathers "
               "weights in its forward and in its backward pass. `gather: step`: weights are gathered once a "
               "step, and gradients are whole until its last microbatch, as in PyTorch's FSDP inside a "
               "pipeline; a model on named devices then takes the time and memory of sharding 1.",
           .keys = {kParallelKeys.begin(), kParallelKeys.end()}}};
}

namespace {

constexpr std::string_view kOfDevicesAlone =
    "belongs to a model that is priced on named devices: model.huggingface with cluster.device, such as "
    "h100-sxm";

/// Records a problem if `parallel:` states keys that need named devices and the model has none. Two cases are
/// allowed without them: degrees of a model with fitted costs, and `gather` of a generated program.
void check_parallel_without_devices(const Node& parallel, const ModelPart& model,
                                    const SchedulePart& schedule, Problem& problem) {
  const Node* gather = parallel.find("gather");
  const bool is_fitted = std::holds_alternative<FittedModel>(model.model);
  if (gather != nullptr && is_fitted) {
    problem.note(*gather, "parallel.gather",
                 "does not go with fitted costs, which hold for the copies that were measured; leave it out");
  } else if (gather != nullptr && schedule.program) {
    problem.note(*gather, "parallel.gather",
                 "does not go with schedule.program, whose lists say themselves when they gather; leave it "
                 "out");
  } else if (!is_fitted && parallel.entries.size() > (gather != nullptr ? 1 : 0)) {
    problem.note(parallel, "parallel", kOfDevicesAlone);
  }
}

/// Records a problem for each stated key that is allowed only if the model is on named devices.
void refuse_without_devices(const Node& document, const ModelPart& model, const SchedulePart& schedule,
                            const TrainingPart& training, Problem& problem) {
  if (const Node* parallel = document.find("parallel"); parallel != nullptr)
    check_parallel_without_devices(*parallel, model, schedule, problem);
  const auto refuse = [&](bool is_given, Word part, Word key) {
    if (is_given)
      problem.note(*document.find(part)->find(key), fmt::format("{}.{}", part, key), kOfDevicesAlone);
  };
  refuse(schedule.layer_split.has_value(), "schedule", "layer_split");
  refuse(schedule.program && schedule.shape.sharding, "schedule", "sharding");
  refuse(training.device_precision.has_value(), "training", "precision");
  refuse(training.recompute.has_value(), "training", "recompute");
  refuse(!training.sequences.empty(), "training", "sequence");
  refuse(training.gradient_bytes.has_value(), "training", "gradient_bytes");
  refuse(training.deferred_head.has_value(), "training", "deferred_head");
  refuse(training.host_layer_ns.has_value(), "training", "host_layer");
  refuse(training.expert_factor.has_value(), "training", "expert_factor");
  refuse(training.expert_layer_ns.has_value(), "training", "expert_layer");
  refuse(training.framework.has_value(), "training", "framework");
  refuse(training.action_overhead_ns.has_value(), "training", "action_overhead");
  refuse(training.step_overhead_ns.has_value(), "training", "step_overhead");
}

/// Checks a model on named devices. Records a problem for each missing key and for each key that is not
/// allowed.
void check_parts(const Node& document, const ModelPart& model, const TrainingPart& training,
                 Problem& problem) {
  const std::vector<std::int64_t>& recomputed = training.recomputed_layers.layers;
  const auto layers = std::ssize(model.architecture->architecture.layers);
  if (!recomputed.empty() && recomputed.back() >= layers) {
    problem.note(*document.find("training")->find("recompute"), "training.recompute",
                 fmt::format("expected layers from 0 to {}, got {}", layers - 1, recomputed.back()));
  }
  if (!model.architecture->sequence && training.sequences.empty()) {
    problem.note(*document.find("model"), "model.sequence",
                 "expected the tokens of a sample, such as 8192, got nothing");
  }
  if (training.precision) {
    problem.note(*document.find("training")->find("precision"), "training.precision",
                 "expected bf16, fp8 or fp4 for a model on named devices");
  }
}

/// Returns the workload of a model on named devices. Absent keys have the defaults of such a model (adam,
/// gradients of 4 bytes). The numbers of copies and ranks are set later.
Workload workload_of(const ArchitecturePart& architecture, const DeviceType& device, const Parallel& degrees,
                     const TrainingPart& training) {
  Workload work;
  work.model = architecture.architecture;
  work.sequence = architecture.sequence.value_or(1);
  work.parallel = degrees;
  work.device = device;
  work.precision = training.device_precision.value_or(GemmPrecision::bf16);
  work.recompute = training.recompute.value_or(LayerRecompute::none);
  work.recomputed_layers = training.recomputed_layers;
  work.gradient_bytes = training.gradient_bytes.value_or(4);
  work.optimizer_bytes = optimizer_bytes(training.optimizer.value_or(Optimizer::adam));
  work.deferred_head = training.deferred_head.value_or(false);
  const auto seconds = [](std::optional<Ns> time) {
    return static_cast<double>(time.value_or(0)) * kSecondsPerNanosecond;
  };
  work.host_layer_seconds = seconds(training.host_layer_ns);
  work.framework = training.framework.value_or(Framework::megatron_te);
  work.action_seconds = training.action_overhead_ns ? seconds(training.action_overhead_ns)
                                                    : usual_action_seconds(work.framework);
  work.step_seconds = seconds(training.step_overhead_ns);
  work.expert_factor = training.expert_factor.value_or(1);
  if (training.expert_layer_ns)
    work.unexplained_expert_seconds = static_cast<double>(*training.expert_layer_ns) * kSecondsPerNanosecond;
  return work;
}

/// Returns the number of tokens in a sample, for each microbatch. A list under `training:` takes precedence
/// over one under `model:`.
const std::vector<std::int64_t>& sequences_of(const DeviceModelParts& parts) {
  return parts.training.sequences.empty() ? parts.model.architecture->sequences : parts.training.sequences;
}

}  // namespace

std::optional<DeviceModel> device_model_of(const Node& document, const DeviceModelParts& parts,
                                           Problem& problem) {
  const auto& named = parts.cluster.named;
  if (!parts.model.architecture || !named) {
    refuse_without_devices(document, parts.model, parts.schedule, parts.training, problem);
    return std::nullopt;
  }
  check_parts(document, parts.model, parts.training, problem);
  if (problem.found()) return std::nullopt;
  DeviceModel on_devices;
  on_devices.work =
      workload_of(*parts.model.architecture, named->type, parts.parallel.degrees, parts.training);
  on_devices.split = parts.schedule.layer_split.value_or(LayerSplit{});
  on_devices.work.predictions = on_devices.split.predictions;
  on_devices.sequences = sequences_of(parts);
  if (!on_devices.sequences.empty()) on_devices.work.sequence = std::ranges::max(on_devices.sequences);
  on_devices.kernels = named->kernels;
  on_devices.devices = named->device_count();
  if (parts.cluster.groups.size() > 1) {
    on_devices.devices = 0;
    for (const DeviceCluster& group : parts.cluster.groups) {
      on_devices.kinds.push_back(
          {.type = group.type, .kernels = group.kernels, .devices = group.device_count()});
      on_devices.devices += group.device_count();
    }
  }
  on_devices.copies = parts.parallel.data;
  on_devices.distributed_optimizer = parts.parallel.distributed_optimizer;
  on_devices.states_order = parts.parallel.states_order;
  return on_devices;
}

}  // namespace penstock
