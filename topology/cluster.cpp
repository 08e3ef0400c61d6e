// Builds clusters and finds routes. ClusterBuilder checks the input, numbers devices before switches, names
// the links and computes the forwarding table (next_links.cpp). A route follows this table.
//
// If every device has a direct link to every other one, no links are stored. The link from a to b then has
// the number of the pair (a, b) in the list of all pairs, sorted by sender and then by receiver. The list has
// no pairs of a device with itself:
//
//   n = 3    0>1  0>2  1>0  1>2  2>0  2>1        a (n - 1) + b, less 1 if b > a
//             0    1    2    3    4    5
//
// Tests: route_test.cpp and cluster_test.cpp of tests/topology/.

#include "topology/cluster.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <tuple>
#include <utility>
#include <vector>

namespace penstock {
namespace {

/// Returns true if a device's rate (operations or bytes per second) is finite and at least 0. The rate 0
/// means that it is unknown.
bool is_rate(double value) { return value >= 0 && std::isfinite(value); }

/// Returns the links with names that differ. If several links have the same two ends, "#2", "#3", ... is
/// appended to all names but the first.
std::vector<Link> with_distinct_names(std::vector<Link> links) {
  std::vector<std::tuple<std::int32_t, std::int32_t, std::size_t>> order;
  order.reserve(links.size());
  for (std::size_t i = 0; i < links.size(); ++i) order.emplace_back(links[i].from, links[i].to, i);
  std::ranges::sort(order);
  std::size_t first_of_pair = 0;
  for (std::size_t i = 1; i < order.size(); ++i) {
    const auto& [from, to, number] = order[i];
    const auto& [first_from, first_to, first_number] = order[first_of_pair];
    if (std::pair(from, to) != std::pair(first_from, first_to)) {
      first_of_pair = i;
    } else {
      links[number].name += fmt::format("#{}", i - first_of_pair + 1);
    }
  }
  return links;
}

}  // namespace

Route Cluster::route(std::int32_t from, std::int32_t to) const {
  assert(from >= 0 && from < device_count() && "routes begin at a device of the cluster");
  assert(to >= 0 && to < device_count() && "routes end at a device of the cluster");
  if (data_->direct) {
    if (from == to) return {};
    return {.links = {LinkNumber{from} * (device_count() - 1) + to - (to > from ? 1 : 0)},
            .bytes_per_second = data_->direct->bytes_per_second,
            .latency_ns = data_->direct->latency_ns};
  }
  // The row of the table for `to` is a tree of links that lead to `to`. So a route needs no search and has no
  // cycle.
  const auto row = static_cast<std::size_t>(to) * static_cast<std::size_t>(data_->node_count);
  Route route;
  for (auto node = from; node != to;) {
    const auto number = data_->next_links[row + static_cast<std::size_t>(node)];
    const auto& link = data_->links[number];
    route.links.push_back(number);
    route.bytes_per_second = std::min(route.bytes_per_second, link.bytes_per_second);
    route.latency_ns = saturating_sum_ns(route.latency_ns, link.latency_ns);
    node = link.to;
  }
  return route;
}

// Returns the link with this number. If links are not stored, both ends are computed from the number by the
// inverse of the formula in route().
Link Cluster::link(LinkNumber number) const {
  if (!data_->direct) return data_->links[static_cast<std::size_t>(number)];
  Link link = *data_->direct;
  link.from = static_cast<std::int32_t>(number / (device_count() - 1));
  const auto other = static_cast<std::int32_t>(number % (device_count() - 1));
  link.to = other + (other >= link.from ? 1 : 0);
  link.name = devices()[static_cast<std::size_t>(link.from)].name + ">" +
              devices()[static_cast<std::size_t>(link.to)].name;
  return link;
}

std::vector<Link> Cluster::links() const {
  if (!data_->direct) return data_->links;
  std::vector<Link> links;
  const LinkNumber count = LinkNumber{device_count()} * (device_count() - 1);
  links.reserve(static_cast<std::size_t>(count));
  for (LinkNumber number = 0; number < count; ++number) links.push_back(link(number));
  return links;
}

double Cluster::most_bytes_per_second() const {
  if (data_->direct) return data_->direct->bytes_per_second;
  if (data_->links.empty()) return kUnlimitedBandwidth;
  return std::ranges::max(data_->links, {}, &Link::bytes_per_second).bytes_per_second;
}

double Cluster::least_bytes_per_second() const {
  if (data_->direct) return data_->direct->bytes_per_second;
  if (data_->links.empty()) return kUnlimitedBandwidth;
  return std::ranges::min(data_->links, {}, &Link::bytes_per_second).bytes_per_second;
}

std::int64_t Cluster::latency_of_all_links_ns() const {
  if (data_->direct) return data_->direct->latency_ns;
  std::int64_t sum = 0;
  for (const Link& link : data_->links) {
    if (__builtin_add_overflow(sum, link.latency_ns, &sum)) return std::numeric_limits<std::int64_t>::max();
  }
  return sum;
}

Cluster Cluster::fully_joined(std::string name, std::vector<Device> devices, double bytes_per_second,
                              std::int64_t latency_ns) {
  const auto nodes = static_cast<std::int32_t>(devices.size());
  return Cluster(
      {.name = std::move(name),
       .devices = std::move(devices),
       .links = {},
       .node_count = nodes,
       .next_links = {},
       .direct = Link{.name = {}, .bytes_per_second = bytes_per_second, .latency_ns = latency_ns}});
}

bool operator==(const Cluster& a, const Cluster& b) {
  // Copies share their data, so they are equal without a comparison. Equal links give equal routes, so routes
  // are not compared.
  if (a.data_ == b.data_) return true;
  if (a.name() != b.name() || a.devices() != b.devices() || a.torus() != b.torus()) return false;
  // A fully joined cluster does not store its links, but it may have the same links as a cluster that was
  // built link by link.
  const bool alike = a.data_->direct.has_value() == b.data_->direct.has_value();
  if (!alike) return a.links() == b.links();
  return a.data_->direct == b.data_->direct && a.data_->links == b.data_->links;
}

std::int32_t ClusterBuilder::add_device(Device device) {
  const auto index = static_cast<std::int32_t>(devices_.size());
  if (device.name.empty()) device.name = fmt::format("device{}", index);
  nodes_.push_back({device.name, index});
  devices_.push_back(std::move(device));
  return static_cast<std::int32_t>(nodes_.size()) - 1;
}

std::int32_t ClusterBuilder::add_switch(std::string name) {
  nodes_.push_back({std::move(name), -1});
  return static_cast<std::int32_t>(nodes_.size()) - 1;
}

void ClusterBuilder::add_link(std::int32_t from, std::int32_t to, double bytes_per_second,
                              std::int64_t latency_ns) {
  // build() sets the names of links, because all nodes have names then.
  links_.push_back({"", from, to, bytes_per_second, latency_ns});
}

void ClusterBuilder::add_duplex_link(std::int32_t a, std::int32_t b, double bytes_per_second,
                                     std::int64_t latency_ns) {
  add_link(a, b, bytes_per_second, latency_ns);
  add_link(b, a, bytes_per_second, latency_ns);
}

/// Returns the number of each node in the finished cluster: devices first, then switches.
std::vector<std::int32_t> ClusterBuilder::cluster_nodes() const {
  std::vector<std::int32_t> numbers;
  numbers.reserve(nodes_.size());
  // Devices come first, so that device d is node d even if switches were added earlier.
  auto next_switch = static_cast<std::int32_t>(devices_.size());
  for (const auto& node : nodes_) numbers.push_back(node.device >= 0 ? node.device : next_switch++);
  return numbers;
}

/// Returns the links in the order in which they were added, with the node numbers of the finished cluster.
/// Requires that link_error() has accepted both ends of each link.
std::vector<Link> ClusterBuilder::cluster_links() const {
  const auto numbers = cluster_nodes();
  auto links = links_;
  for (auto& link : links) {
    link.name = nodes_[link.from].name + ">" + nodes_[link.to].name;
    link.from = numbers[link.from];
    link.to = numbers[link.to];
  }
  return with_distinct_names(std::move(links));
}

/// Returns the name of a node for error messages, or "node N" if there is no node with the number N.
std::string ClusterBuilder::node_name(std::int32_t node) const {
  const bool known = node >= 0 && node < std::ssize(nodes_);
  return known ? nodes_[node].name : fmt::format("node {}", node);
}

std::optional<std::string> ClusterBuilder::size_error() const {
  if (devices_.empty()) return fmt::format("cluster '{}' has no device; add at least one", name_);
  if (std::ssize(links_) > kMostLinks) {
    return fmt::format("cluster '{}' has {} links; at most {} are supported", name_, links_.size(),
                       kMostLinks);
  }
  // The limit is divided, because a product may not fit in 64 bits.
  if (std::ssize(devices_) > kMostRouteEntries / std::ssize(nodes_)) {
    return fmt::format(
        "cluster '{}' has {} devices and {} nodes in all; at most {} devices x nodes are supported", name_,
        devices_.size(), nodes_.size(), kMostRouteEntries);
  }
  return std::nullopt;
}

std::optional<std::string> ClusterBuilder::device_error() const {
  for (const auto& device : devices_) {
    if (device.memory_bytes && *device.memory_bytes <= 0) {
      return fmt::format(
          "device '{}': its memory must be greater than 0 bytes, found {}; leave it out for no limit",
          device.name, *device.memory_bytes);
    }
    if (device.reserved_bytes < 0) {
      return fmt::format("device '{}': its reserve must be 0 bytes or more, found {}", device.name,
                         device.reserved_bytes);
    }
    if (!is_rate(device.flops_per_second)) {
      return fmt::format("device '{}': its flops_per_second must be 0 (unknown) or more, found {}",
                         device.name, device.flops_per_second);
    }
    if (!is_rate(device.memory_bytes_per_second)) {
      return fmt::format("device '{}': its memory_bytes_per_second must be 0 (unknown) or more, found {}",
                         device.name, device.memory_bytes_per_second);
    }
  }
  return std::nullopt;
}

std::optional<std::string> ClusterBuilder::link_error() const {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const auto& link = links_[i];
    // The message names both ends, because a link has no name before build().
    const auto error = [&](const std::string& what) {
      return fmt::format("link {} ('{}>{}'): {}", i, node_name(link.from), node_name(link.to), what);
    };
    if (std::min(link.from, link.to) < 0 || std::max(link.from, link.to) >= std::ssize(nodes_)) {
      return error(fmt::format("both ends must be among the {} nodes of the cluster", nodes_.size()));
    }
    if (link.from == link.to) return error("its two ends must be different nodes");
    // This comparison also rejects NaN.
    if (!(link.bytes_per_second > 0)) {
      return error(
          fmt::format("its bandwidth must be greater than 0 bytes/s, found {}", link.bytes_per_second));
    }
    if (link.latency_ns < 0) {
      return error(fmt::format("its latency must be 0 ns or more, found {} ns", link.latency_ns));
    }
  }
  return std::nullopt;
}

tl::expected<Cluster, std::string> ClusterBuilder::build() const {
  // Sizes are checked before routes are computed, because the table of routes could otherwise need too much
  // memory.
  if (const auto error = size_error()) return tl::unexpected(*error);
  if (const auto error = device_error()) return tl::unexpected(*error);
  if (const auto error = link_error()) return tl::unexpected(*error);
  const auto node_count = static_cast<std::int32_t>(nodes_.size());
  const auto device_count = static_cast<std::int32_t>(devices_.size());
  auto links = cluster_links();
  auto table = next_links(links, device_count, node_count);
  // Only devices send and receive messages, so routes to and from switches are not needed.
  for (std::int32_t to = 0; to < device_count; ++to) {
    const auto* const row = table.data() + static_cast<std::ptrdiff_t>(to) * node_count;
    for (std::int32_t from = 0; from < device_count; ++from) {
      if (from == to || row[from] != kNoLink) continue;
      return tl::unexpected(
          fmt::format("no route leads from device '{}' to device '{}'; join them by links (one each way), "
                      "directly or over switches",
                      devices_[from].name, devices_[to].name));
    }
  }
  return Cluster({.name = name_,
                  .devices = devices_,
                  .links = std::move(links),
                  .node_count = node_count,
                  .next_links = std::move(table),
                  .torus = torus_});
}

std::int64_t serialization_ns(std::int64_t bytes, double bytes_per_second) {
  assert(bytes >= 0 && "no message has less than 0 bytes");
  assert(bytes_per_second > 0 && "a bandwidth is greater than 0");
  const auto most = std::numeric_limits<std::int64_t>::max();
  const long double division_error_ns = 1e-6L;
  if (bytes == 0 || std::isinf(bytes_per_second)) return 0;
  // A long double is necessary, because a double has too few digits for 1e-6 ns in a time of hours.
  const long double exact_ns =
      static_cast<long double>(bytes) * 1e9L / static_cast<long double>(bytes_per_second);
  // The division may give slightly more than the exact result, which would then be rounded up by 1 ns.
  const long double whole_ns = std::ceil(exact_ns - division_error_ns);
  return whole_ns < static_cast<long double>(most) ? static_cast<std::int64_t>(whole_ns) : most;
}

}  // namespace penstock
