// Recognises the files that describe a server, and adds what both formats state: NVLinks and network
// cards. If two GPUs are on one NVSwitch, the matrix shows all links of a GPU as if they led to the other
// GPU alone:
//
//          GPU0  GPU1  GPU2                       12
//   GPU0    X    NV12  NV12        GPU0 ---------------- nvswitch      and not 12 + 12 links of GPU0, because
//   GPU1   NV12   X    NV12        GPU1 ---------------- nvswitch      no GPU has more than 18
//   GPU2   NV12  NV12   X          GPU2 ---------------- nvswitch
//
// Tested by machine_test.cpp.

#include "scenarios/read/machine.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace penstock {
namespace {

/// The largest number of NVLinks of a GPU. The GPUs from H100 to B300 have 18.
constexpr std::int32_t kMostNvlinks = 18;

/// Returns true if a line of the text begins with the word.
bool has_line_with(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    if (at == 0 || text[at - 1] == '\n') return true;
  }
  return false;
}

/// The use of the NVLinks of all GPUs in a server. The vectors of numbers have one entry for each GPU.
struct NvlinkUse {
  std::vector<std::int32_t> switched;                      ///< links to NVSwitches
  std::vector<std::int32_t> direct;                        ///< links to other GPUs
  std::vector<std::pair<std::size_t, std::size_t>> pairs;  ///< GPUs with links between them
  std::vector<std::vector<std::size_t>> on_switches;       ///< the GPUs of each NVSwitch
};

/// Adds a group of GPUs that are connected by NVLinks. If the links of one GPU add up to more than a GPU
/// has, all GPUs of the group are on one NVSwitch.
void add_joined(NvlinkUse& use, const NvlinkCounts& counts, const std::vector<std::size_t>& group) {
  const auto sum = [&](std::size_t gpu) {
    return std::accumulate(counts.between[gpu].begin(), counts.between[gpu].end(), 0);
  };
  if (std::ranges::any_of(group, [&](std::size_t gpu) { return sum(gpu) > kMostNvlinks; })) {
    for (const std::size_t gpu : group) use.switched[gpu] += std::ranges::max(counts.between[gpu]);
    use.on_switches.push_back(group);
    return;
  }
  for (const std::size_t gpu : group) {
    use.direct[gpu] = sum(gpu);
    for (const std::size_t other : group) {
      if (gpu < other && counts.between[gpu][other] > 0) use.pairs.emplace_back(gpu, other);
    }
  }
}

NvlinkUse nvlink_use(const NvlinkCounts& counts, std::size_t gpus) {
  NvlinkUse use{
      .switched = counts.to_switches, .direct = std::vector(gpus, 0), .pairs = {}, .on_switches = {}};
  use.switched.resize(gpus, 0);
  const auto are_joined = [&](std::size_t one, std::size_t other) { return counts.between[one][other] != 0; };
  for (const std::vector<std::size_t>& group : joined_groups(counts.between.size(), are_joined))
    add_joined(use, counts, group);
  // All GPUs with links to switches that the file names are on one NVSwitch.
  std::vector<std::size_t> named;
  for (std::size_t gpu = 0; gpu < counts.to_switches.size(); ++gpu) {
    if (counts.to_switches[gpu] > 0) named.push_back(gpu);
  }
  if (!named.empty()) use.on_switches.push_back(named);
  return use;
}

/// Connects all GPUs to one NVSwitch. Each GPU's connection has a rate of `bytes_per_second`.
void add_nvswitch(Machine& machine, double bytes_per_second) {
  const std::int32_t all = machine.add({.name = "nvswitch0"});
  for (const std::int32_t gpu : machine.gpus) machine.links.push_back({gpu, all, bytes_per_second});
  machine.nvlinks = fmt::format("{} GPUs are on one NVSwitch with {:.4g} GB/s each (nvlink)",
                                machine.gpus.size(), bytes_per_second / 1e9);
}

}  // namespace

std::vector<std::vector<std::size_t>> joined_groups(
    std::size_t count, const std::function<bool(std::size_t, std::size_t)>& are_joined) {
  std::vector<std::vector<std::size_t>> groups;
  std::vector<bool> seen(count, false);
  for (std::size_t first = 0; first < count; ++first) {
    if (seen[first]) continue;
    seen[first] = true;
    std::vector<std::size_t> group = {first};
    for (std::size_t i = 0; i < group.size(); ++i) {
      for (std::size_t other = 0; other < count; ++other) {
        if (seen[other] || !are_joined(group[i], other)) continue;
        seen[other] = true;
        group.push_back(other);
      }
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

std::int32_t Machine::add(MachineNode node) {
  nodes.push_back(std::move(node));
  return static_cast<std::int32_t>(nodes.size()) - 1;
}

MachineFormat machine_format(std::string_view text) {
  if (text.find("<system") != std::string_view::npos && text.find('<') == text.find_first_not_of(" \t\r\n"))
    return MachineFormat::nccl_xml;
  if (text.find("GPU0") != std::string_view::npos &&
      (text.find(" X ") != std::string_view::npos || text.find("\tX\t") != std::string_view::npos))
    return MachineFormat::topo_matrix;
  if (has_line_with(text, "npus_count:") && has_line_with(text, "topology:")) return MachineFormat::astra_sim;
  return MachineFormat::none;
}

void add_nvlinks(Machine& machine, const NvlinkCounts& counts, const MachineAssumptions& assumed) {
  const std::size_t gpus = machine.gpus.size();
  const NvlinkUse use = nvlink_use(counts, gpus);
  std::map<std::int32_t, std::int32_t> users;  // number of GPUs for each number of links
  for (std::size_t gpu = 0; gpu < gpus; ++gpu) {
    const std::int32_t links = use.switched[gpu] + use.direct[gpu];
    if (links > 0) ++users[links];
  }
  if (users.empty()) {
    // A file without GPUs' links, such as a cloud's, may still describe a server with an NVSwitch.
    if (assumed.nvlink && gpus > 1) add_nvswitch(machine, *assumed.nvlink);
    return;
  }
  const double one = assumed.nvlink ? *assumed.nvlink / users.rbegin()->first : counts.link_bytes_per_second;
  for (std::size_t i = 0; i < use.on_switches.size(); ++i) {
    const std::int32_t hub = machine.add({.name = fmt::format("nvswitch{}", i)});
    for (const std::size_t gpu : use.on_switches[i])
      machine.links.push_back({machine.gpus[gpu], hub, use.switched[gpu] * one});
  }
  for (const auto& [gpu, other] : use.pairs)
    machine.links.push_back({machine.gpus[gpu], machine.gpus[other], counts.between[gpu][other] * one});
  for (const auto& [links, count] : users) {
    machine.nvlinks += fmt::format("{}{} of {} GPUs have {} NVLinks of {:.4g} GB/s",
                                   machine.nvlinks.empty() ? "" : ", ", count, gpus, links, one / 1e9);
  }
}

void share_nics(Machine& machine, const std::vector<NearestNics>& nearest) {
  machine.nics_of.assign(machine.gpus.size(), {});
  // The GPUs that have the same nearest cards.
  std::map<std::vector<std::int32_t>, std::vector<std::size_t>> sharers;
  for (std::size_t gpu = 0; gpu < nearest.size(); ++gpu) {
    machine.nics_of[gpu].relation = nearest[gpu].relation;
    if (!nearest[gpu].nics.empty()) sharers[nearest[gpu].nics].push_back(gpu);
  }
  for (const auto& [nics, gpus] : sharers) {
    for (std::size_t i = 0; i < std::max(nics.size(), gpus.size()); ++i)
      machine.nics_of[gpus[i % gpus.size()]].nics.push_back(nics[i % nics.size()]);
  }
}

}  // namespace penstock
