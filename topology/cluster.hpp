#pragma once
// Defines a cluster: devices, directed links, and the routes between devices. Clusters are made by
// presets.hpp, by ClusterBuilder, and by scenarios/ from YAML files. The engines use them.

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "text/enum_words.hpp"

namespace penstock {

/// The bandwidth of an unlimited link.
inline constexpr double kUnlimitedBandwidth = std::numeric_limits<double>::infinity();

/// The largest number of links that a cluster may have. This many links need 256 MiB. This limit and the
/// next two catch typing errors in sizes, which would otherwise use all memory.
inline constexpr std::int64_t kMostLinks = std::int64_t{1} << 22;
/// The largest number of devices in a cluster in which every two devices have their own links. Their names
/// need about a gigabyte.
inline constexpr std::int32_t kMostJoinedDevices = 1 << 24;
/// The largest number of entries (devices * nodes) in the table of routes. They need 256 MiB.
inline constexpr std::int64_t kMostRouteEntries = std::int64_t{1} << 26;

/// Returns the bytes of a device's memory that a plan may use: the memory minus the reserved bytes, but at
/// least 0. Returns nothing if the memory is unlimited. All checks for sufficient memory use this value.
constexpr std::optional<std::int64_t> usable_bytes(std::optional<std::int64_t> memory_bytes,
                                                   std::int64_t reserved_bytes) {
  if (!memory_bytes) return std::nullopt;
  return std::max<std::int64_t>(0, *memory_bytes - reserved_bytes);
}

/// One accelerator.
struct Device {
  /// The device's name. If it is empty, ClusterBuilder names the device "device" and its index.
  std::string name{};
  /// The memory in bytes, greater than 0. Absent means unlimited.
  std::optional<std::int64_t> memory_bytes = std::nullopt;
  /// The bytes of the memory that the driver and libraries use, at least 0.
  std::int64_t reserved_bytes = 0;
  /// The peak compute rate in operations per second, at least 0. 0 means unknown.
  double flops_per_second = 0;
  /// The bandwidth of the device's memory in bytes per second, at least 0. 0 means unknown.
  double memory_bytes_per_second = 0;

  friend bool operator==(const Device&, const Device&) = default;
};

/// A one-way connection between two nodes of the cluster. The devices are nodes 0..n-1 in their order, and
/// the switches have the numbers after them.
struct Link {
  /// The name in reports, "a>b". The second link from a to b is "a>b#2".
  std::string name;
  std::int32_t from = 0;
  std::int32_t to = 0;
  /// The bandwidth in bytes per second, greater than 0, possibly infinite.
  double bytes_per_second = kUnlimitedBandwidth;
  /// The latency of the link in ns, at least 0.
  std::int64_t latency_ns = 0;

  friend bool operator==(const Link&, const Link&) = default;
};

/// The number of a link. It needs 64 bits, because n fully joined devices have n(n-1) links.
using LinkNumber = std::int64_t;

/// The route from one device to another. It consists of the numbers of its links in order, the smallest
/// bandwidth of these links, and the sum of their latencies.
struct Route {
  std::vector<LinkNumber> links;
  double bytes_per_second = kUnlimitedBandwidth;
  std::int64_t latency_ns = 0;

  friend bool operator==(const Route&, const Route&) = default;
};

/// The algorithm by which a group of devices on a torus reduces and gathers data.
enum class TorusCollectives : std::uint8_t {
  dimensions,  ///< Rings in one dimension after the other.
  ring,        ///< One ring through all devices of the group.
};
template <>
inline constexpr auto kEnumWords<TorusCollectives> = std::to_array<EnumWord<TorusCollectives>>(
    {{TorusCollectives::dimensions, "dimensions"}, {TorusCollectives::ring, "ring"}});

/// The grid of devices that form a torus. The last coordinate changes fastest: device 0 is at (0, .., 0),
/// and device 1 is at (0, .., 1).
struct Torus {
  std::vector<std::int32_t> dimensions;  ///< The number of devices in each dimension, at least 1.
  TorusCollectives collectives = TorusCollectives::dimensions;

  friend bool operator==(const Torus&, const Torus&) = default;
};

/// The devices 0..n-1, the switches and links that connect them, and the best route for each ordered pair
/// of devices. A cluster cannot be changed. ClusterBuilder computes the routes once, and copies of the
/// cluster share them.
class Cluster {
 public:
  /// Makes a cluster without devices.
  Cluster() : data_(std::make_shared<const Data>()) {}

  const std::string& name() const { return data_->name; }
  const std::vector<Device>& devices() const { return data_->devices; }
  /// Returns all links in the order of their numbers. The time is proportional to the number of links. If
  /// each pair of devices has its own links, n devices have n(n-1) links.
  std::vector<Link> links() const;
  /// Returns the link with this number, for example with a number from a route.
  Link link(LinkNumber number) const;
  /// Returns the bandwidth of the link with this number.
  double link_bytes_per_second(LinkNumber number) const {
    return data_->direct ? data_->direct->bytes_per_second
                         : data_->links[static_cast<std::size_t>(number)].bytes_per_second;
  }
  /// Returns the bandwidth of the fastest link, or unlimited if there is no link.
  double most_bytes_per_second() const;
  /// Returns the bandwidth of the slowest link, or unlimited if there is no link.
  double least_bytes_per_second() const;
  /// Returns an upper bound of the latency of every route. It is the sum of the latencies of all links. If
  /// each pair of devices has its own links, it is the latency of one link.
  std::int64_t latency_of_all_links_ns() const;
  /// Returns the torus that the devices form, or nothing if they do not form a torus.
  const std::optional<Torus>& torus() const { return data_->torus; }
  std::int32_t device_count() const { return static_cast<std::int32_t>(data_->devices.size()); }

  /// Returns the best route from one device to another. It has the least latency. Of routes with equal
  /// latency, it has the fewest links, and then the largest bandwidth of its slowest link. If several
  /// routes are equal in all three, each node uses the link with the lowest number that begins such a
  /// route. The routes to one device therefore form a tree. Devices can forward messages as switches do.
  /// The route from a device to itself is empty (unlimited bandwidth, 0 ns). Requires valid device numbers.
  Route route(std::int32_t from, std::int32_t to) const;

  /// Returns a cluster in which each ordered pair of devices has its own link, with this bandwidth and
  /// latency. Every route is a single link, and no two routes share a link. The links are not stored, so
  /// only the devices need memory. Requires at most kMostJoinedDevices devices.
  static Cluster fully_joined(std::string name, std::vector<Device> devices, double bytes_per_second,
                              std::int64_t latency_ns);

  /// Returns true if names, devices, links and torus are equal. The routes are then equal as well.
  friend bool operator==(const Cluster& a, const Cluster& b);

 private:
  friend class ClusterBuilder;
  struct Data {
    std::string name;
    std::vector<Device> devices;
    std::vector<Link> links;
    std::int32_t node_count = 0;
    std::vector<std::int32_t> next_links;  // the table that next_links() computes
    // The link of each ordered pair in a fully joined cluster, in which `links` and `next_links` are empty.
    // Absent for all other clusters.
    std::optional<Link> direct{};
    std::optional<Torus> torus{};
  };
  explicit Cluster(Data data) : data_(std::make_shared<const Data>(std::move(data))) {}

  std::shared_ptr<const Data> data_;
};

/// A builder that collects the nodes and links of a cluster and then computes the routes.
class ClusterBuilder {
 public:
  explicit ClusterBuilder(std::string name) : name_(std::move(name)) {}

  /// Adds a device and returns its node number.
  std::int32_t add_device(Device device);
  /// Adds a node that only forwards messages (a switch, a host bridge) and returns its node number.
  std::int32_t add_switch(std::string name);
  /// Adds a one-way link. `from` and `to` are numbers that add_device() and add_switch() have returned. In
  /// the finished cluster, nodes may have other numbers (see Link).
  void add_link(std::int32_t from, std::int32_t to, double bytes_per_second, std::int64_t latency_ns);
  /// Adds two links, one in each direction: first from a to b, then from b to a.
  void add_duplex_link(std::int32_t a, std::int32_t b, double bytes_per_second, std::int64_t latency_ns);

  /// Declares that the devices form this torus, in the order in which they are added. The number of devices
  /// must be the product of the torus' dimensions.
  void set_torus(Torus torus) { torus_ = std::move(torus); }

  /// Returns the cluster. Fails if there is no device, or if a pair of devices has no route. Also fails if
  /// the memory or rate of a device is out of range. Also fails if a link has an unknown node, two equal
  /// ends, a bandwidth that is not positive, or a negative latency. Also fails if the cluster exceeds
  /// kMostLinks or kMostRouteEntries. The error names the device or link.
  tl::expected<Cluster, std::string> build() const;

 private:
  struct Node {
    std::string name;
    std::int32_t device = -1;  // index in devices_, or -1 for a switch
  };
  std::vector<std::int32_t> cluster_nodes() const;
  std::vector<Link> cluster_links() const;
  std::string node_name(std::int32_t node) const;
  std::optional<std::string> size_error() const;
  std::optional<std::string> device_error() const;
  std::optional<std::string> link_error() const;

  std::string name_;
  std::vector<Node> nodes_;
  std::vector<Device> devices_;
  std::vector<Link> links_;  // links between nodes_, without names
  std::optional<Torus> torus_;
};

/// Returns the time in ns for which `bytes` (>= 0) occupy a link or route with this bandwidth (> 0, in
/// bytes per second). It is bytes / bandwidth, rounded up to whole ns. A fraction below 1e-6 ns is not
/// rounded up, because it is an error of the floating-point division. Returns 0 for unlimited bandwidth,
/// and the largest std::int64_t if the result is larger.
std::int64_t serialization_ns(std::int64_t bytes, double bytes_per_second);

// Computes the table from which Cluster::route() reads routes. For each destination device, the table
// contains the next link of every node.

/// The entry of a node that has no next link to a destination. Such a node is the destination itself,
/// cannot reach it, or is on no device's route.
inline constexpr std::int32_t kNoLink = -1;

/// Returns a + b for two non-negative times in ns, or the largest std::int64_t if the sum is larger.
constexpr std::int64_t saturating_sum_ns(std::int64_t a, std::int64_t b) {
  const auto most = std::numeric_limits<std::int64_t>::max();
  return a > most - b ? most : a + b;
}

/// Returns the forwarding table for these links. Entry [destination * node_count + node] is the index of
/// the link on which `node` forwards messages to `destination`, by the rule of Cluster::route(). Nodes
/// 0..device_count-1 are the devices. Requires valid node numbers, bandwidths > 0 and latencies >= 0.
std::vector<std::int32_t> next_links(std::span<const Link> links, std::int32_t device_count,
                                     std::int32_t node_count);

}  // namespace penstock
