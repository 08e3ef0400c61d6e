// Reads NCCL's topology file (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE). Its XML elements are nested in the
// same way as the PCIe devices:
//
//   <system> <cpu numaid="0">
//              <pci class="0x060400">                                       a switch
//                <pci class="0x030200"> <gpu dev="0"> <nvlink target=.. count="12"/> </gpu> </pci>
//                <pci class="0x020700"> <nic> <net name="mlx5_0" speed="200000"/> </nic> </pci>
//
// Files of clouds have no <gpu> and <net>, but only classes, and some do not even have classes. The elements
// inside a <pci> decide what the device is. Without them, its class decides. If no device is a GPU by these
// rules, each empty <pci> without a class is a GPU. Tested by machine_test.cpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <tl/expected.hpp>

#include "scenarios/read/machine.hpp"
#include "text/numbers.hpp"

namespace penstock {
namespace {

using Tree = boost::property_tree::ptree;

std::string attribute(const Tree& element, const std::string& name) {
  return element.get("<xmlattr>." + name, std::string());
}

/// Returns the number at the beginning of an attribute, such as 16 of "16 GT/s", or nothing.
std::optional<double> number_in(const Tree& element, const std::string& name) {
  const std::string text = attribute(element, name);
  return leading_number<double>(text).value;
}

bool has_child(const Tree& element, std::string_view name) {
  return std::ranges::any_of(element, [&](const auto& child) { return child.first == name; });
}

/// The kind of device that a <pci> element describes.
enum class PciKind : std::uint8_t { gpu, nic, bridge, other, unknown };

PciKind kind_of(const Tree& pci) {
  if (has_child(pci, "gpu")) return PciKind::gpu;
  if (has_child(pci, "nic") || has_child(pci, "net")) return PciKind::nic;
  if (has_child(pci, "pci")) return PciKind::bridge;
  const std::string type = attribute(pci, "class");
  if (type.empty()) return PciKind::unknown;
  // The PCI classes are those of displays, 3D controllers and processing accelerators (GPUs), of Ethernet and
  // InfiniBand (network cards), and of bridges.
  for (const std::string_view gpu : {"0x0300", "0x0302", "0x0380", "0x12"}) {
    if (type.starts_with(gpu)) return PciKind::gpu;
  }
  if (type.starts_with("0x02")) return PciKind::nic;
  return type.starts_with("0x0604") ? PciKind::bridge : PciKind::other;
}

/// Returns the bandwidth between the processors of a server. The values are those of NCCL's
/// src/graph/topo.h.
double socket_bandwidth(const Tree& cpu) {
  constexpr double kSapphireRapids = 143;
  const std::string vendor = attribute(cpu, "vendor");
  if (vendor == "AuthenticAMD") return 16e9;
  if (vendor == "GenuineIntel") return number_in(cpu, "modelid").value_or(0) >= kSapphireRapids ? 22e9 : 10e9;
  return attribute(cpu, "arch").starts_with("ppc") ? 32e9 : 6e9;
}

/// Returns the bandwidth of one NVLink in one direction. `capability` is the GPU's compute capability, such
/// as 80.
double nvlink_bandwidth(double capability) {
  if (capability >= 100) return 50e9;  // fifth generation
  if (capability == 86) return 14.0625e9;
  return capability > 0 && capability < 70 ? 20e9 : 25e9;
}

/// A GPU that was found in the file, before the GPUs are sorted.
struct FoundGpu {
  std::int32_t node = 0;
  std::optional<std::int32_t> number;  ///< the attribute `dev`
  std::string bus;
  Tree element;  ///< the element <gpu>, or an empty one
};

class XmlReader {
 public:
  /// Creates a reader. If `takes_unknown` is true, every empty <pci> element without a class counts as a
  /// GPU.
  XmlReader(const MachineAssumptions& assumed, bool takes_unknown)
      : assumed_(assumed), takes_unknown_(takes_unknown) {}

  tl::expected<Machine, std::string> machine_of(const Tree& system) {
    add_all(system);
    if (gpus_.empty()) {
      return tl::unexpected(std::string(
          "expected a GPU: an element <gpu>, or a <pci> of class 0x0302.. or 0x0300.., got none"));
    }
    pcie_links_ = machine_.links.size();
    sort_gpus();
    add_nvlinks_of_gpus();
    add_nics_of_gpus();
    add_assumptions();
    return std::move(machine_);
  }

 private:
  void add_all(const Tree& system) {
    std::vector<std::pair<std::int32_t, double>> cpus;
    for (const auto& [name, element] : system) {
      if (name == "cpu") {
        const auto cpu = machine_.add({.name = fmt::format("cpu{}", cpus.size())});
        cpus.emplace_back(cpu, assumed_.sockets.value_or(socket_bandwidth(element)));
        add_children(element, cpu);
      } else {
        add_element(name, element, std::nullopt);
      }
    }
    for (std::size_t i = 0; i < cpus.size(); ++i) {
      for (std::size_t j = i + 1; j < cpus.size(); ++j) {
        machine_.links.push_back({cpus[i].first, cpus[j].first, std::min(cpus[i].second, cpus[j].second)});
        sockets_ = cpus[i].second;
      }
    }
  }

  void add_children(const Tree& element, std::optional<std::int32_t> parent) {
    for (const auto& [name, child] : element) add_element(name, child, parent);
  }

  void add_element(const std::string& name, const Tree& element, std::optional<std::int32_t> parent) {
    if (name == "gpu") {
      add_gpu(element, attribute(element, "pci"), assumed_.pcie, parent);
    } else if (name == "nic" || name == "net") {
      add_nic(element, name == "net", assumed_.pcie, parent);
    } else if (name == "pci") {
      add_pci(element, parent);
    }
  }

  void add_pci(const Tree& element, std::optional<std::int32_t> parent) {
    PciKind kind = kind_of(element);
    if (kind == PciKind::unknown && takes_unknown_) kind = PciKind::gpu;
    const double bandwidth = bandwidth_of(element);
    if (kind == PciKind::bridge) {
      const auto bridge = machine_.add({.name = fmt::format("pcie{}", bridges_++)});
      if (parent) machine_.links.push_back({*parent, bridge, bandwidth});
      add_children(element, bridge);
      return;
    }
    if (kind == PciKind::nic) return add_nic(element, false, bandwidth, parent);
    if (kind != PciKind::gpu) return;
    const auto gpu = element.find("gpu");
    add_gpu(gpu == element.not_found() ? Tree() : gpu->second, attribute(element, "busid"), bandwidth,
            parent);
  }

  /// Returns the bandwidth of a PCIe link. Up to 5 GT/s, 8 of 10 transferred bits are data. At higher
  /// rates, 128 of 130 bits are.
  double bandwidth_of(const Tree& pci) {
    const auto transfers = number_in(pci, "link_speed");
    const auto lanes = number_in(pci, "link_width");
    if (!transfers || *transfers <= 0 || !lanes || *lanes <= 0) {
      assumes_pcie_ = true;
      return assumed_.pcie;
    }
    constexpr double kOldCode = 5;
    const double data = *transfers <= kOldCode ? 0.8 : 128.0 / 130;
    return *transfers * 1e9 * *lanes * data / 8;
  }

  void add_gpu(const Tree& element, const std::string& bus, double bandwidth,
               std::optional<std::int32_t> parent) {
    const auto node = machine_.add({.kind = MachineNode::Kind::gpu});
    if (parent) machine_.links.push_back({node, *parent, bandwidth});
    const auto number = number_of_text<std::int32_t>(attribute(element, "dev"));
    gpus_.push_back({.node = node, .number = number, .bus = bus, .element = element});
    capability_ = std::max(capability_, number_in(element, "sm").value_or(0));
  }

  void add_nic(const Tree& element, bool is_net, double bandwidth, std::optional<std::int32_t> parent) {
    std::string name;
    double speed = 0;
    const auto add_net = [&](const Tree& net) {
      if (name.empty()) name = attribute(net, "name");
      speed += number_in(net, "speed").value_or(0) * 1e6 / 8;  // in Mbit/s
    };
    const auto add_nets = [&](const Tree& parts) {
      for (const auto& [part, net] : parts) {
        if (part == "net") add_net(net);
      }
    };
    if (is_net) add_net(element);
    add_nets(element);
    for (const auto& [part, nic] : element) {
      if (part == "nic") add_nets(nic);
    }
    if (name.empty()) name = attribute(element, "dev");
    if (name.empty()) name = fmt::format("nic{}", nics_.size());
    const auto node = machine_.add(
        {.kind = MachineNode::Kind::nic, .name = name, .bytes_per_second = speed > 0 ? speed : bandwidth});
    if (parent) machine_.links.push_back({node, *parent, bandwidth});
    nics_.push_back(node);
  }

  /// Sorts the GPUs by their number and names them. Without numbers, they keep the order of the file.
  void sort_gpus() {
    std::ranges::stable_sort(gpus_, {}, [](const FoundGpu& gpu) { return gpu.number.value_or(0); });
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      machine_.nodes[static_cast<std::size_t>(gpus_[i].node)].name = fmt::format("gpu{}", i);
      machine_.gpus.push_back(gpus_[i].node);
    }
  }

  /// Returns the GPU to which a link leads. The link names it by its bus or by its number.
  std::optional<std::size_t> gpu_of_target(const std::string& target) const {
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      const bool is_number = gpus_[i].number && target == std::to_string(*gpus_[i].number);
      if (is_number || (!target.empty() && target == gpus_[i].bus)) return i;
    }
    return std::nullopt;
  }

  void add_nvlinks_of_gpus() {
    NvlinkCounts counts{.between = std::vector(gpus_.size(), std::vector<std::int32_t>(gpus_.size(), 0)),
                        .to_switches = std::vector<std::int32_t>(gpus_.size(), 0),
                        .link_bytes_per_second = nvlink_bandwidth(capability_)};
    std::vector<std::string> joined_to_themselves;
    for (std::size_t gpu = 0; gpu < gpus_.size(); ++gpu) {
      for (const auto& [name, link] : gpus_[gpu].element) {
        if (name != "nvlink" && name != "xgmi") continue;
        const auto count = static_cast<std::int32_t>(number_in(link, "count").value_or(1));
        const auto other = gpu_of_target(attribute(link, "target"));
        if (!other) {
          counts.to_switches[gpu] += count;
        } else if (*other != gpu) {
          // The file states a link between two GPUs at both of them, and the numbers may differ. The larger
          // one counts.
          counts.between[gpu][*other] = counts.between[*other][gpu] =
              std::max(counts.between[gpu][*other], count);
        } else {
          joined_to_themselves.push_back(fmt::format("gpu{}", gpu));
        }
        // One Infinity Fabric link of AMD has 64 GB/s in each direction.
        if (name == "xgmi") counts.link_bytes_per_second = 64e9;
      }
    }
    add_nvlinks(machine_, counts, assumed_);
    if (joined_to_themselves.empty() || assumed_.nvlink) return;
    // As in NCCL, such a link is not a path between two GPUs.
    machine_.nvlinks += fmt::format(
        "{}the links of {} have their own GPU as target and join no GPUs (cluster.nvlink states the "
        "NVLink that they have)",
        machine_.nvlinks.empty() ? "" : "; ", fmt::join(joined_to_themselves, ", "));
  }

  /// Returns the number of links on the path from the node `start` to each other node. NVLinks are not
  /// used.
  std::vector<std::int32_t> hops_from(std::int32_t start) const {
    std::vector<std::int32_t> hops(machine_.nodes.size(), -1);
    hops[static_cast<std::size_t>(start)] = 0;
    std::vector<std::int32_t> reached = {start};
    for (std::size_t i = 0; i < reached.size(); ++i) {
      for (std::size_t link = 0; link < pcie_links_; ++link) {
        for (const auto& [a, b] : {std::pair{machine_.links[link].from, machine_.links[link].to},
                                   std::pair{machine_.links[link].to, machine_.links[link].from}}) {
          if (a != reached[i] || hops[static_cast<std::size_t>(b)] >= 0) continue;
          hops[static_cast<std::size_t>(b)] = hops[static_cast<std::size_t>(a)] + 1;
          reached.push_back(b);
        }
      }
    }
    return hops;
  }

  void add_nics_of_gpus() {
    std::vector<NearestNics> nearest;
    for (const FoundGpu& gpu : gpus_) {
      const std::vector<std::int32_t> hops = hops_from(gpu.node);
      std::int32_t least = -1;
      NearestNics one;
      for (const std::int32_t nic : nics_) {
        const std::int32_t far = hops[static_cast<std::size_t>(nic)];
        if (far < 0 || (least >= 0 && far > least)) continue;
        if (far < least) one.nics.clear();
        least = far;
        one.nics.push_back(nic);
      }
      nearest.push_back(std::move(one));
    }
    share_nics(machine_, nearest);
  }

  void add_assumptions() {
    if (assumes_pcie_) machine_.assumed = fmt::format("PCIe {:.4g} GB/s (pcie)", assumed_.pcie / 1e9);
    if (sockets_) {
      machine_.assumed += fmt::format("{}between processors {:.4g} GB/s (sockets)",
                                      machine_.assumed.empty() ? "" : ", ", *sockets_ / 1e9);
    }
  }

  MachineAssumptions assumed_;
  bool takes_unknown_;
  Machine machine_;
  std::vector<FoundGpu> gpus_;
  std::vector<std::int32_t> nics_;
  std::size_t pcie_links_ = 0;  ///< number of links that are not NVLinks; they come first
  std::int32_t bridges_ = 0;
  double capability_ = 0;  ///< largest compute capability of the GPUs
  std::optional<double> sockets_;
  bool assumes_pcie_ = false;
};

}  // namespace

tl::expected<Machine, std::string> machine_of_xml(std::string_view text, const MachineAssumptions& assumed) {
  Tree document;
  try {
    std::istringstream stream{std::string(text)};
    boost::property_tree::read_xml(stream, document, boost::property_tree::xml_parser::no_comments);
  } catch (const boost::property_tree::xml_parser_error& fault) {
    return tl::unexpected(fmt::format("{}: not valid XML: {}", fault.line(), fault.message()));
  }
  const auto system = document.find("system");
  if (system == document.not_found())
    return tl::unexpected(std::string("expected an element <system>, as NCCL writes it, got none"));
  auto machine = XmlReader(assumed, false).machine_of(system->second);
  if (machine) return machine;
  auto with_unknown = XmlReader(assumed, true).machine_of(system->second);
  return with_unknown ? with_unknown : machine;
}

}  // namespace penstock
