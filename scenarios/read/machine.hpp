#pragma once
// A server that a file of another tool describes: NCCL's topology XML, or the matrix of `nvidia-smi topo
// -m`. load_machine.cpp turns it into a cluster. It also reads ASTRA-sim's network files.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

namespace penstock {

/// The bandwidths to assume if a machine's file does not state them, in one direction and in bytes a
/// second.
struct MachineAssumptions {
  /// The bandwidth of a PCIe link whose speed the file does not state. The default is that of 16 lanes of
  /// 16 GT/s.
  double pcie = 16 * 16e9 / 8 * 128 / 130;
  /// The bandwidth between the processors of a server. If it is absent, it follows from the processors.
  std::optional<double> sockets{};
  /// The bandwidth of all NVLinks of one GPU. If it is absent, it follows from the number of links.
  std::optional<double> nvlink{};
};

/// A component of a server that links connect: a GPU, a network card, or anything between them.
struct MachineNode {
  enum class Kind : std::uint8_t { gpu, nic, inner };
  Kind kind = Kind::inner;
  std::string name{};
  /// The bandwidth of a network card in one direction, in bytes a second.
  double bytes_per_second = 0;
};

/// A link in both directions between two nodes.
struct MachineLink {
  std::int32_t from = 0;
  std::int32_t to = 0;
  double bytes_per_second = 0;
};

/// The network cards that a GPU uses, as indices of nodes. `relation` is the kind of the path to them, such
/// as "PXB".
struct NearestNics {
  std::vector<std::int32_t> nics{};
  std::string relation{};
};

/// One server with its parts and links. `gpus` has the node indices of its GPUs, and `nics_of` has the
/// network cards of each GPU.
struct Machine {
  std::vector<MachineNode> nodes{};
  std::vector<MachineLink> links{};
  std::vector<std::int32_t> gpus{};
  std::vector<NearestNics> nics_of{};
  /// A sentence on NVLink, such as "3 of 4 GPUs are on 12 NVLinks of 25 GB/s". Empty if there is none.
  std::string nvlinks{};
  /// The bandwidths that were assumed, for a note. Empty if the file states all of them.
  std::string assumed{};

  /// Adds a node and returns its index.
  std::int32_t add(MachineNode node);
};

/// The formats of files that describe a machine or network, from which a cluster can be made.
enum class MachineFormat : std::uint8_t { none, nccl_xml, topo_matrix, astra_sim };
/// Returns the format of a text, or `none` if it is not recognised.
MachineFormat machine_format(std::string_view text);

/// Reads a server from a topology file of NCCL. Fails if the text is not XML or if the file has no GPU. In
/// the first case, the error is "LINE: message".
tl::expected<Machine, std::string> machine_of_xml(std::string_view text, const MachineAssumptions& assumed);
/// Reads a server from the output of `nvidia-smi topo -m`. Other lines, such as a prompt or a legend, may
/// surround the matrix. Errors have the form "LINE: message".
tl::expected<Machine, std::string> machine_of_matrix(std::string_view text,
                                                     const MachineAssumptions& assumed);

/// Returns the words of one line in the output of `nvidia-smi topo -m`, without the codes "ESC[4m" of a
/// terminal. Some pastes lose the ESC.
std::vector<std::string> matrix_words(std::string_view line);
/// Returns the devices that the words of the header line name. The columns about processors, which follow the
/// devices, are left out.
std::vector<std::string> matrix_names(const std::vector<std::string>& words);

/// Returns the numbers from 0 to `count` - 1 in groups. Two numbers are in one group if they are joined
/// directly, or through other numbers of the group. `are_joined` returns true if two numbers are joined
/// directly.
std::vector<std::vector<std::size_t>> joined_groups(
    std::size_t count, const std::function<bool(std::size_t, std::size_t)>& are_joined);

/// The number of NVLinks between each pair of GPUs, and from each GPU to NVSwitches. A GPU is named by its
/// index in Machine::gpus.
struct NvlinkCounts {
  std::vector<std::vector<std::int32_t>> between{};  ///< number of NVLinks between each two GPUs
  std::vector<std::int32_t> to_switches{};           ///< number of NVLinks from each GPU to the switches
  double link_bytes_per_second = 25e9;               ///< the bandwidth of one NVLink, in one direction
};
/// Adds the NVLinks to the machine. If the links of a GPU to all others are more than a GPU has, an
/// NVSwitch must join these GPUs.
void add_nvlinks(Machine& machine, const NvlinkCounts& counts, const MachineAssumptions& assumed);

/// Sets the network cards of each GPU. `nearest` has, for each GPU, all cards that are nearest to it. GPUs
/// with the same nearest cards share them evenly.
void share_nics(Machine& machine, const std::vector<NearestNics>& nearest);

}  // namespace penstock
