// Finds groups of devices that faster routes connect. It removes all routes with the smallest bandwidth.
// Devices that are still connected form a group. Tests: tests/scenarios/planned_scenario_test.cpp.

#include "scenarios/partition/pipedream_partition.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "topology/cluster.hpp"

namespace penstock {
namespace {

/// Returns the bandwidth between two devices in the slower direction.
double bandwidth_between(const Cluster& cluster, std::int32_t a, std::int32_t b) {
  return std::min(cluster.route(a, b).bytes_per_second, cluster.route(b, a).bytes_per_second);
}

/// Returns the least bandwidth of all routes between two of the devices. For a single device it returns
/// kUnlimitedBandwidth.
double narrowest(const Cluster& cluster, std::span<const std::int32_t> devices) {
  double bandwidth = kUnlimitedBandwidth;
  for (const std::int32_t a : devices) {
    for (const std::int32_t b : devices)
      if (a < b) bandwidth = std::min(bandwidth, bandwidth_between(cluster, a, b));
  }
  return bandwidth;
}

using DeviceGroups = std::vector<std::vector<std::int32_t>>;

/// Returns groups of devices. A device joins the first group whose first member it reaches by a route
/// faster than `bytes_per_second`. This function compares a device with first members only. are_apart()
/// checks the other members.
DeviceGroups groups_wider_than(const Cluster& cluster, double bytes_per_second) {
  DeviceGroups groups;
  for (std::int32_t device = 0; device < cluster.device_count(); ++device) {
    const auto home = std::ranges::find_if(groups, [&](const std::vector<std::int32_t>& group) {
      return bandwidth_between(cluster, group.front(), device) > bytes_per_second;
    });
    if (home == groups.end()) {
      groups.push_back({device});
    } else {
      home->push_back(device);
    }
  }
  return groups;
}

/// Returns true if all routes inside a group are faster than `bytes_per_second`, and all routes between
/// groups are not.
bool are_apart(const Cluster& cluster, const DeviceGroups& groups, double bytes_per_second) {
  for (const std::vector<std::int32_t>& group : groups) {
    for (const std::int32_t a : group) {
      for (std::int32_t b = 0; b < cluster.device_count(); ++b) {
        const bool is_inside = std::ranges::find(group, b) != group.end();
        if (a != b && is_inside != (bandwidth_between(cluster, a, b) > bytes_per_second)) return false;
      }
    }
  }
  return true;
}

std::string text_of(double bytes_per_second) {
  return bytes_per_second == kUnlimitedBandwidth ? std::string("unlimited bandwidth")
                                                 : fmt::format("{:g} GB/s", bytes_per_second / 1e9);
}

/// Returns the name of each device and switch of the cluster, by node number. The names of switches come from
/// the names of their links ("a>b", "a>b#2").
std::map<std::int32_t, std::string> switch_names(const Cluster& cluster) {
  std::map<std::int32_t, std::string> names;
  // Devices are numbered before switches and have their own names.
  for (std::int32_t device = 0; device < cluster.device_count(); ++device)
    names[device] = cluster.devices()[static_cast<std::size_t>(device)].name;
  const std::vector<Link> links = cluster.links();
  // Each round names the switches that are one link further away from the devices.
  for (std::size_t round = 0; round < links.size(); ++round) {
    const std::size_t known = names.size();
    for (const Link& link : links) {
      const auto from = names.find(link.from);
      const auto to = names.find(link.to);
      if (from != names.end() && to == names.end()) {
        // A link's name consists of the name of the near end, ">" and the name of the switch.
        const std::string rest = link.name.substr(from->second.size() + 1);
        names[link.to] = rest.substr(0, rest.rfind('#'));
      } else if (from == names.end() && to != names.end()) {
        names[link.from] = link.name.substr(0, link.name.rfind(">" + to->second));
      }
    }
    // A switch that is not connected to any device has no name.
    if (names.size() == known) break;
  }
  return names;
}

}  // namespace

ClusterLevels cluster_levels(const Cluster& cluster) {
  std::vector<std::int32_t> devices(static_cast<std::size_t>(cluster.device_count()));
  std::iota(devices.begin(), devices.end(), 0);
  // Routes between groups are the slowest ones, so the least bandwidth of all routes is the bandwidth between
  // groups.
  const double between = narrowest(cluster, devices);
  ClusterLevels one_level{.levels = {{cluster.device_count(), between}}, .devices = devices};
  // Devices with a faster route between them are in one group.
  const DeviceGroups groups = groups_wider_than(cluster, between);
  const std::size_t size = groups.front().size();
  const bool are_even = std::ranges::all_of(groups, [&](const auto& group) { return group.size() == size; });
  // All components of a level must have equal size. If they do not, a single level with the least bandwidth
  // is used, because every route has at least this bandwidth.
  if (size == 1 || groups.size() == 1 || !are_even || !are_apart(cluster, groups, between)) return one_level;
  double inside = kUnlimitedBandwidth;
  devices.clear();
  for (const std::vector<std::int32_t>& group : groups) {
    inside = std::min(inside, narrowest(cluster, group));
    // The partitioner needs the devices of one component next to each other.
    devices.insert(devices.end(), group.begin(), group.end());
  }
  return {.levels = {{static_cast<std::int32_t>(size), inside},
                     {static_cast<std::int32_t>(groups.size()), between}},
          .devices = devices};
}

std::string to_text(const ClusterLevels& levels) {
  const BandwidthLevel& lowest = levels.levels.front();
  const BandwidthLevel& highest = levels.levels.back();
  if (levels.levels.size() == 1) {
    return fmt::format(
        "the cluster given link by link is planned as {} devices with {} between any two, its narrowest "
        "route",
        highest.components, text_of(highest.bytes_per_second));
  }
  return fmt::format(
      "the cluster given link by link is planned as {} groups of {} devices, with {} inside a group and {} "
      "between groups, its narrowest routes",
      highest.components, lowest.components, text_of(lowest.bytes_per_second),
      text_of(highest.bytes_per_second));
}

tl::expected<Cluster, std::string> in_device_order(const Cluster& cluster,
                                                   std::span<const std::int32_t> order) {
  ClusterBuilder builder(cluster.name());
  std::map<std::int32_t, std::int32_t> node_of;  // the node in the builder for each node of the cluster
  // Devices are added before switches, so that their numbers are their indices in `order`.
  for (const std::int32_t device : order)
    node_of[device] = builder.add_device(cluster.devices()[static_cast<std::size_t>(device)]);
  for (const auto& [node, name] : switch_names(cluster))
    if (node >= cluster.device_count()) node_of[node] = builder.add_switch(name);
  for (const Link& link : cluster.links())
    builder.add_link(node_of.at(link.from), node_of.at(link.to), link.bytes_per_second, link.latency_ns);
  return builder.build();
}

}  // namespace penstock
