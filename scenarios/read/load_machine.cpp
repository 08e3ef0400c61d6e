// Reads `cluster: {machine: FILE, nodes: 4}`, in which a file of another tool describes the servers.
// NCCL's topology file or the matrix of `nvidia-smi topo -m` describes one server, and all servers are
// equal. The network cards of the GPUs lead to one switch:
//
//   node0: gpu0 gpu1 on pcie0 .. nvswitch0        node1: the same
//            \   /                                  \   /
//            mlx5_0 ------------- network ------------ mlx5_0
//
// A network file of ASTRA-sim describes the whole cluster, by the shape of each dimension. Tested by
// machine_test.cpp.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "scenarios/read/document.hpp"
#include "scenarios/read/machine.hpp"
#include "scenarios/read/reader.hpp"
#include "scenarios/read/scenario.hpp"
#include "scenarios/read/schema.hpp"
#include "schedules/ir/action.hpp"
#include "text/enum_words.hpp"
#include "text/numbers.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

constexpr std::array kMachineKeys = {
    Key{.name = "machine",
        .kind = KeyKind::file,
        .meaning = "The file of another tool that describes a server or a network.",
        .usual = "required"},
    Key{.name = "nodes",
        .kind = KeyKind::integer,
        .meaning = "The number of such servers, whose network cards one switch joins.",
        .usual = "1",
        .range = {.least = 1, .most = 1 << 16}},
    Key{.name = "nvlink",
        .kind = KeyKind::speed,
        .meaning =
            "Bandwidth of all NVLinks of a GPU, each way. A file that names none then has an NVSwitch.",
        .usual = "25 GB/s a link; by the GPU's generation where the file states it"},
    Key{.name = "pcie",
        .kind = KeyKind::speed,
        .meaning = "Bandwidth of PCIe links whose speed the file does not state.",
        .usual = "31.5 GB/s, PCIe 4 with 16 lanes"},
    Key{.name = "sockets",
        .kind = KeyKind::speed,
        .meaning = "Bandwidth between the processors of a server.",
        .usual = "NCCL's figure for the processor; 16 GB/s where it is not known"},
    Key{.name = "network",
        .kind = KeyKind::speed,
        .meaning = "Bandwidth of a network card, each way.",
        .usual = "what the file states, or that of its PCIe link"},
    Key{.name = "latency",
        .kind = KeyKind::duration,
        .meaning = "Latency of the network between servers. Links inside a server have none.",
        .usual = "5 us"},
    Key{.name = "memory", .kind = KeyKind::limit, .meaning = "Memory of a device.", .usual = "unlimited"},
    Key{.name = "reserve",
        .kind = KeyKind::bytes,
        .meaning = "Bytes of each device's memory that no plan may use.",
        .usual = "0"},
    Key{.name = "flops",
        .kind = KeyKind::rate,
        .meaning = "Peak rate of a device, which a transformer takes.",
        .usual = "unknown"},
    kHostLinkKey,
    Key{.name = "price",
        .kind = KeyKind::number,
        .meaning = "What a device costs for an hour, in any money.",
        .usual = "no costs are printed"}};

constexpr Ns kNetworkLatencyNs = 5'000;

/// Returns a device with the memory, reserved bytes and compute rate that the scenario states. The machine's
/// file states nothing about devices except their links.
Device device_of(const MappingReader& reader) {
  Device device;
  if (reader.has("memory")) device.memory_bytes = reader.limit("memory");
  device.reserved_bytes = read_reserve(reader, device.memory_bytes).value_or(0);
  device.flops_per_second = reader.flops("flops").value_or(0);
  return device;
}

// --- servers ---------------------------------------------------------------------------------------------

/// A builder of a cluster that consists of `nodes` identical servers.
class ServerBuilder {
 public:
  ServerBuilder(const Machine& machine, const MappingReader& reader, std::string name)
      : machine_(machine),
        reader_(reader),
        device_(device_of(reader)),
        nodes_(static_cast<std::int32_t>(reader.integer("nodes").value_or(1))),
        builder_(std::move(name)) {}

  std::int32_t nodes() const { return nodes_; }

  tl::expected<Cluster, std::string> cluster() {
    for (std::int32_t server = 0; server < nodes_; ++server) add_devices(server);
    for (std::int32_t server = 0; server < nodes_; ++server) add_links(server);
    if (nodes_ > 1) add_network();
    return builder_.build();
  }

 private:
  std::string name_of(std::int32_t server, const MachineNode& node) const {
    return nodes_ == 1 ? node.name : fmt::format("node{}/{}", server, node.name);
  }
  std::int32_t& number(std::int32_t server, std::int32_t node) {
    return numbers_[static_cast<std::size_t>(server) * machine_.nodes.size() +
                    static_cast<std::size_t>(node)];
  }

  void add_devices(std::int32_t server) {
    numbers_.resize(machine_.nodes.size() * static_cast<std::size_t>(nodes_), -1);
    for (const std::int32_t gpu : machine_.gpus) {
      device_.name = name_of(server, machine_.nodes[static_cast<std::size_t>(gpu)]);
      number(server, gpu) = builder_.add_device(device_);
    }
  }

  void add_links(std::int32_t server) {
    for (std::size_t i = 0; i < machine_.nodes.size(); ++i) {
      const MachineNode& node = machine_.nodes[i];
      if (node.kind == MachineNode::Kind::inner)
        number(server, static_cast<std::int32_t>(i)) = builder_.add_switch(name_of(server, node));
    }
    for (const MachineLink& link : machine_.links) {
      const std::int32_t from = number(server, link.from);
      const std::int32_t to = number(server, link.to);
      // A network card is connected to its GPUs by the code below, so that no message inside the server uses
      // it.
      if (from >= 0 && to >= 0) builder_.add_duplex_link(from, to, link.bytes_per_second, 0);
    }
  }

  /// Connects the network cards of all servers to one switch. Cards that no GPU uses are left out. The
  /// network's latency belongs to the links between GPUs and cards. So no route between two GPUs of a
  /// server leads over a card.
  void add_network() {
    const Ns latency = reader_.duration("latency").value_or(kNetworkLatencyNs);
    const std::int32_t network = builder_.add_switch("network");
    for (std::int32_t server = 0; server < nodes_; ++server) {
      for (std::size_t gpu = 0; gpu < machine_.gpus.size(); ++gpu) {
        for (const std::int32_t nic : machine_.nics_of[gpu].nics) {
          const MachineNode& card = machine_.nodes[static_cast<std::size_t>(nic)];
          const double bandwidth = reader_.bandwidth("network").value_or(card.bytes_per_second);
          if (number(server, nic) < 0) {
            number(server, nic) = builder_.add_switch(name_of(server, card));
            builder_.add_duplex_link(number(server, nic), network, bandwidth, 0);
          }
          builder_.add_duplex_link(number(server, machine_.gpus[gpu]), number(server, nic), bandwidth,
                                   latency - latency / 2);
        }
      }
    }
  }

  const Machine& machine_;
  const MappingReader& reader_;
  Device device_;
  std::int32_t nodes_;
  ClusterBuilder builder_;
  std::vector<std::int32_t> numbers_;  ///< the node of the builder, by server and node of the machine
};

/// Returns a note on the description that was read: its links, its cards and what was assumed.
std::string note_of(const Machine& machine, std::string_view file, std::string_view format) {
  std::vector<std::string> cards;
  for (std::size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    std::vector<std::string> names;
    for (const std::int32_t nic : machine.nics_of[gpu].nics)
      names.push_back(machine.nodes[static_cast<std::size_t>(nic)].name);
    if (names.empty()) continue;
    const std::string& relation = machine.nics_of[gpu].relation;
    cards.push_back(fmt::format("{} {}{}", machine.nodes[static_cast<std::size_t>(machine.gpus[gpu])].name,
                                fmt::join(names, " + "),
                                relation.empty() ? "" : fmt::format(" ({})", relation)));
  }
  std::string note = fmt::format("cluster of {} ({}): {} GPU{}", file, format, machine.gpus.size(),
                                 machine.gpus.size() == 1 ? "" : "s");
  note += machine.nvlinks.empty() ? "; no NVLink is named" : "; " + machine.nvlinks;
  if (!cards.empty()) note += fmt::format("; network cards: {}", fmt::join(cards, ", "));
  if (!machine.assumed.empty()) note += "; assumed: " + machine.assumed;
  return note;
}

// --- ASTRA-sim -------------------------------------------------------------------------------------------

/// One dimension of a network of ASTRA-sim: its shape, its number of devices, its bandwidth and its latency.
struct Dimension {
  std::string shape;
  std::int64_t size = 1;
  double bytes_per_second = 0;
  Ns latency_ns = 0;
};

constexpr std::array<std::string_view, 3> kMachineShapes = {"Ring", "FullyConnected", "Switch"};
constexpr std::string_view kAstraSim = "a network of ASTRA-sim";

/// Returns the texts of a key that has a list or a single value.
std::vector<std::string> texts_at(const Node& document, std::string_view key) {
  std::vector<std::string> texts;
  const Node* node = document.find(key);
  if (node == nullptr) return texts;
  if (node->kind == Node::Kind::scalar) texts.push_back(node->text);
  for (const Node& item : node->items) texts.push_back(item.text);
  return texts;
}

tl::expected<std::vector<double>, std::string> numbers_at(const Node& document, std::string_view key,
                                                          std::size_t count) {
  std::vector<double> numbers;
  for (const std::string& text : texts_at(document, key)) {
    const auto number = finite_number(text);
    if (!number || *number < 0)
      return tl::unexpected(fmt::format("{}: expected numbers from 0 on, got \"{}\"", key, text));
    numbers.push_back(*number);
  }
  if (numbers.size() == count) return numbers;
  return tl::unexpected(
      fmt::format("{}: expected {} numbers, one for each dimension, got {}", key, count, numbers.size()));
}

tl::expected<std::vector<Dimension>, std::string> dimensions_of(const Node& document) {
  std::vector<Dimension> dimensions;
  for (const std::string& shape : texts_at(document, "topology")) {
    if (std::ranges::find(kMachineShapes, shape) == kMachineShapes.end()) {
      return tl::unexpected(fmt::format("topology: expected {}, got \"{}\"{}", listed(kMachineShapes), shape,
                                        did_you_mean(shape, kMachineShapes)));
    }
    dimensions.push_back({.shape = shape});
  }
  const auto sizes = numbers_at(document, "npus_count", dimensions.size());
  if (!sizes) return tl::unexpected(sizes.error());
  const auto bandwidths = numbers_at(document, "bandwidth", dimensions.size());
  if (!bandwidths) return tl::unexpected(bandwidths.error());
  const bool has_latency = document.find("latency") != nullptr;
  const auto latencies = has_latency ? numbers_at(document, "latency", dimensions.size())
                                     : std::vector<double>(dimensions.size(), 0);
  if (!latencies) return tl::unexpected(latencies.error());
  constexpr double kMostNpus = 8192;
  double devices = 1;
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    const double size = (*sizes)[i];
    devices *= size;
    if (size < 1 || size != static_cast<double>(static_cast<std::int64_t>(size)) || devices > kMostNpus) {
      return tl::unexpected(
          fmt::format("npus_count: expected whole numbers with a product of at most {}, got {}", kMostNpus,
                      fmt::join(*sizes, ", ")));
    }
    if (!((*bandwidths)[i] > 0))
      return tl::unexpected(std::string("bandwidth: expected numbers above 0, got 0"));
    // ASTRA-sim states bandwidths in GB/s, and its GB is 2^30 bytes.
    constexpr double kGibibyte = 1024.0 * 1024 * 1024;
    dimensions[i].size = static_cast<std::int64_t>(size);
    dimensions[i].bytes_per_second = (*bandwidths)[i] * kGibibyte;
    dimensions[i].latency_ns = static_cast<Ns>(std::llround((*latencies)[i]));
  }
  return dimensions;
}

/// Connects the devices whose positions differ only in this dimension of the network. Their numbers are
/// `first`, `first` + `step`, ...
void join_dimension(ClusterBuilder& builder, const Dimension& dimension, std::int64_t first,
                    std::int64_t step, std::int32_t& switches) {
  const auto device = [&](std::int64_t i) { return static_cast<std::int32_t>(first + i * step); };
  const auto join = [&](std::int32_t a, std::int32_t b) {
    builder.add_duplex_link(a, b, dimension.bytes_per_second, dimension.latency_ns);
  };
  if (dimension.size == 1) return;
  if (dimension.shape == "Switch") {
    const std::int32_t hub = builder.add_switch(fmt::format("switch{}", switches++));
    for (std::int64_t i = 0; i < dimension.size; ++i) join(device(i), hub);
    return;
  }
  for (std::int64_t i = 0; i < dimension.size; ++i) {
    if (dimension.shape == "Ring") {
      // Two devices have one link.
      if (dimension.size > 2 || i == 0) join(device(i), device((i + 1) % dimension.size));
      continue;
    }
    for (std::int64_t j = i + 1; j < dimension.size; ++j) join(device(i), device(j));
  }
}

tl::expected<Cluster, std::string> cluster_of(const std::vector<Dimension>& dimensions, Device device) {
  ClusterBuilder builder("astra-sim");
  std::int64_t devices = 1;
  for (const Dimension& dimension : dimensions) devices *= dimension.size;
  for (std::int64_t i = 0; i < devices; ++i) {
    device.name = fmt::format("npu{}", i);
    builder.add_device(device);
  }
  // The first dimension changes fastest.
  std::int64_t step = 1;
  std::int32_t switches = 0;
  for (const Dimension& dimension : dimensions) {
    for (std::int64_t first = 0; first < devices; ++first) {
      if (first / step % dimension.size == 0) join_dimension(builder, dimension, first, step, switches);
    }
    step *= dimension.size;
  }
  return builder.build();
}

/// Returns the cluster that a network file of ASTRA-sim describes, and adds a note. The error message
/// contains the file's name.
tl::expected<Cluster, std::string> astra_cluster(const std::string& file, const std::string& text,
                                                 const Device& device, std::vector<std::string>& notes) {
  const auto document = parse_document(
      text, std::make_shared<const Source>(Source{.name = file, .directory = {}, .override_key = ""}));
  if (!document) return tl::unexpected(document.error());
  const auto dimensions = dimensions_of(*document);
  if (!dimensions) return tl::unexpected(fmt::format("{}: {}", file, dimensions.error()));
  std::vector<std::string> shapes;
  for (const Dimension& one : *dimensions) {
    shapes.push_back(
        fmt::format("{} of {} with {:.4g} GB/s", one.shape, one.size, one.bytes_per_second / 1e9));
  }
  notes.push_back(
      fmt::format("cluster of {} ({}): {}; each link has this bandwidth in each direction, and a GB "
                  "is 2^30 bytes there",
                  file, kAstraSim, fmt::join(shapes, " x ")));
  return cluster_of(*dimensions, device);
}

/// Records a problem for each key about servers. They are not allowed with a network file of ASTRA-sim, which
/// describes the whole network.
void refuse_keys_of_servers(const MappingReader& reader) {
  for (const std::string_view key : {"nodes", "nvlink", "pcie", "sockets", "network", "latency"}) {
    if (reader.has(key))
      reader.complain(key, "is of servers, and the file of ASTRA-sim has the whole network: leave it out");
  }
}

}  // namespace

ClusterSpec read_machine_cluster(const Node& node, Problem& problem) {
  const MappingReader reader(node, "cluster", kMachineKeys, problem);
  const Node& machine_node = *reader.find("machine");
  if (machine_node.kind != Node::Kind::scalar) {
    reader.complain("machine", "expected the name of a file, got " + describe(machine_node));
    return {};
  }
  const NamedFile file = named_file(machine_node);
  const auto text = read_text_file(file.path, file.name);
  if (!text) {
    reader.complain("machine", text.error());
    return {};
  }
  return machine_cluster(node, file.name, *text, problem);
}

ClusterSpec machine_cluster(const Node& node, const std::string& file, const std::string& text,
                            Problem& problem) {
  const MappingReader reader(node, "cluster", kMachineKeys, problem);
  ClusterSpec spec{.name = file, .price_per_device_hour = read_price(reader)};
  const MachineFormat format = machine_format(text);
  if (format == MachineFormat::astra_sim) {
    refuse_keys_of_servers(reader);
    auto cluster = astra_cluster(file, text, device_of(reader), spec.notes);
    if (!cluster) {
      reader.complain("machine", cluster.error());
      return {};
    }
    spec.shape = *std::move(cluster);
    return spec;
  }
  if (format == MachineFormat::none) {
    reader.complain("machine",
                    fmt::format("{}: expected NCCL's topology XML, the matrix of `nvidia-smi topo -m` "
                                "or a network of ASTRA-sim",
                                file));
    return {};
  }
  MachineAssumptions assumed;
  assumed.pcie = reader.bandwidth("pcie").value_or(assumed.pcie);
  assumed.sockets = reader.bandwidth("sockets");
  assumed.nvlink = reader.bandwidth("nvlink");
  const bool is_xml = format == MachineFormat::nccl_xml;
  const auto machine = is_xml ? machine_of_xml(text, assumed) : machine_of_matrix(text, assumed);
  if (!machine) {
    reader.complain("machine", fmt::format("{}:{}", file, machine.error()));
    return {};
  }
  ServerBuilder servers(*machine, reader, file);
  if (servers.nodes() > 1) {
    for (std::size_t gpu = 0; gpu < machine->gpus.size(); ++gpu) {
      if (!machine->nics_of[gpu].nics.empty()) continue;
      reader.complain("nodes", fmt::format("expected 1, because {} has no network card for gpu{}, got {}",
                                           file, gpu, servers.nodes()));
      return {};
    }
  }
  auto cluster = servers.cluster();
  if (!cluster) {
    reader.complain("machine", cluster.error());
    return {};
  }
  spec.shape = *std::move(cluster);
  spec.notes.push_back(note_of(*machine, file, is_xml ? "NCCL's topology" : "nvidia-smi topo -m"));
  return spec;
}

KeyGroup machine_cluster_keys() {
  return {
      .path = "cluster",
      .form = "`machine: FILE`",
      .about =
          "Servers as another tool describes them: a topology file of NCCL (`NCCL_TOPO_DUMP_FILE`, or that "
          "of a cloud), the matrix of `nvidia-smi topo -m` as it is pasted, or a network file of ASTRA-sim. "
          "`cluster: FILE` is the same. The links, switches and network cards become those of the cluster, "
          "and a note says which card each GPU uses and which bandwidths were assumed.\n\n"
          "A GPU sends to other servers over its nearest network card. GPUs whose nearest cards are the "
          "same share them evenly.",
      .keys = {kMachineKeys.begin(), kMachineKeys.end()}};
}

}  // namespace penstock
