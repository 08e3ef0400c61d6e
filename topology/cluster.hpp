#pragma once
// The machine: devices, directed links and the routes between devices. Clusters are built by presets.hpp, by
// ClusterBuilder, or by scenarios/ from YAML. The engines read them. next_links.hpp computes the routes.

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "text/enum_words.hpp"

namespace penstock {

/// The bandwidth of a link without limit.
inline constexpr double kUnlimitedBandwidth = std::numeric_limits<double>::infinity();

/// Limits on the size of clusters, so that a typing error is refused and does not fill the memory. 2^22 links
/// take 256 MiB, and so do 2^26 entries (devices * nodes) of the table of routes.
inline constexpr std::int64_t kMostLinks = std::int64_t{1} << 22;
/// The most devices of a fully joined cluster; their names take about a gigabyte.
inline constexpr std::int32_t kMostJoinedDevices = 1 << 24;
/// The most entries in the table of routes.
inline constexpr std::int64_t kMostRouteEntries = std::int64_t{1} << 26;

/// Returns the bytes of a device that a plan may use: its memory minus the reserved bytes, but at least 0.
/// Returns nothing if the memory is unlimited. All checks whether something fits in memory use this figure.
constexpr std::optional<std::int64_t> usable_bytes(std::optional<std::int64_t> memory_bytes,
                                                   std::int64_t reserved_bytes) {
  if (!memory_bytes) return std::nullopt;
  return std::max<std::int64_t>(0, *memory_bytes - reserved_bytes);
}

/// One accelerator.
struct Device {
  /// The device's name. If it is empty, ClusterBuilder names the device "device" and its index.
  std::string name{};
  /// The memory, greater than 0; absent means unlimited.
  std::optional<std::int64_t> memory_bytes = std::nullopt;
  /// The part of the memory that the driver and libraries take, at least 0.
  std::int64_t reserved_bytes = 0;
  /// The peak rate, at least 0; 0 means unknown.
  double flops_per_second = 0;
  /// The bandwidth of the memory, at least 0; 0 means unknown.
  double memory_bytes_per_second = 0;

  friend bool operator==(const Device&, const Device&) = default;
};

/// A one-way connection between two nodes of the cluster. Nodes 0..n-1 are the devices in order, and the
/// switches follow.
struct Link {
  /// The name in reports, "a>b". The second link from a to b is "a>b#2".
  std::string name;
  std::int32_t from = 0;
  std::int32_t to = 0;
  /// The rate, greater than 0.
  double bytes_per_second = kUnlimitedBandwidth;
  /// The latency, at least 0.
  std::int64_t latency_ns = 0;

  friend bool operator==(const Link&, const Link&) = default;
};

/// The number of a link. It needs 64 bits, because n fully joined devices have n(n-1) links.
using LinkNumber = std::int64_t;

/// The route from one device to another: the numbers of its links in order, the smallest bandwidth of these
/// links, and the sum of their latencies.
struct Route {
  std::vector<LinkNumber> links;
  double bytes_per_second = kUnlimitedBandwidth;
  std::int64_t latency_ns = 0;

  friend bool operator==(const Route&, const Route&) = default;
};

/// The algorithm by which a group on a torus reduces and gathers.
enum class TorusCollectives : std::uint8_t {
  dimensions,  ///< A ring in each dimension, one dimension after the other.
  ring,        ///< One ring through all devices of the group.
};
template <>
inline constexpr auto kEnumWords<TorusCollectives> = std::to_array<EnumWord<TorusCollectives>>(
    {{TorusCollectives::dimensions, "dimensions"}, {TorusCollectives::ring, "ring"}});

/// The grid behind a torus: device 0 lies at (0, 0, ..), device 1 at (0, .., 1). The last dimension counts
/// fastest.
struct Torus {
  std::vector<std::int32_t> dimensions;  ///< Devices along each dimension, >= 1.
  TorusCollectives collectives = TorusCollectives::dimensions;

  friend bool operator==(const Torus&, const Torus&) = default;
};

/// Devices 0..n-1, the links between them (directly or over switches), and the best route of every ordered
/// pair. A cluster is an immutable value. ClusterBuilder computes its routes once, and copies share them.
class Cluster {
 public:
  /// Makes a cluster without devices.
  Cluster() : data_(std::make_shared<const Data>()) {}

  const std::string& name() const { return data_->name; }
  const std::vector<Device>& devices() const { return data_->devices; }
  /// Returns all links in the order of their numbers. Takes time in proportion to the links, which are n(n-1)
  /// for fully joined devices.
  std::vector<Link> links() const;
  /// Returns the link with the number that a route contains.
  Link link(LinkNumber number) const;
  /// Returns the bandwidth of that link.
  double link_bytes_per_second(LinkNumber number) const {
    return data_->direct ? data_->direct->bytes_per_second
                         : data_->links[static_cast<std::size_t>(number)].bytes_per_second;
  }
  /// Returns the bandwidth of the fastest link; unlimited if there is no link.
  double most_bytes_per_second() const;
  /// Returns the bandwidth of the slowest link; unlimited if there is no link.
  double least_bytes_per_second() const;
  /// Returns a bound on the latency of every route: the sum over all links, or the latency of one link if all
  /// devices are joined directly.
  std::int64_t latency_of_all_links_ns() const;
  /// The grid on which the devices lie; absent where they lie on none.
  const std::optional<Torus>& torus() const { return data_->torus; }
  std::int32_t device_count() const { return static_cast<std::int32_t>(data_->devices.size()); }

  /// Returns the route with the least latency, then the fewest links, then the most bandwidth (of its slowest
  /// link). If several routes are equal in all three, every node takes its lowest-numbered link that begins
  /// one of them, so that the routes to one device form a tree. Devices forward messages like switches. The
  /// route from a device to itself is empty (unlimited, 0 ns). Requires valid indices.
  Route route(std::int32_t from, std::int32_t to) const;

  /// Returns a cluster of devices with an equal link for every ordered pair. No two pairs share a link, and
  /// every route is a single link. Links are not stored, so that thousands of devices need only the memory of
  /// their names. Requires at most kMostJoinedDevices.
  static Cluster fully_joined(std::string name, std::vector<Device> devices, double bytes_per_second,
                              std::int64_t latency_ns);

  /// Returns true if names, devices and links are equal. Routes follow from these.
  friend bool operator==(const Cluster& a, const Cluster& b);

 private:
  friend class ClusterBuilder;
  struct Data {
    std::string name;
    std::vector<Device> devices;
    std::vector<Link> links;
    std::int32_t node_count = 0;
    std::vector<std::int32_t> next_links;  // the table of next_links.hpp
    // The link of every ordered pair of a fully joined cluster, whose `links` and `next_links` are empty.
    std::optional<Link> direct{};
    std::optional<Torus> torus{};
  };
  explicit Cluster(Data data) : data_(std::make_shared<const Data>(std::move(data))) {}

  std::shared_ptr<const Data> data_;
};

/// A builder that collects nodes and links and then computes the routes.
class ClusterBuilder {
 public:
  explicit ClusterBuilder(std::string name) : name_(std::move(name)) {}

  /// Adds a device and returns its node number. Devices are numbered in the order of these calls.
  std::int32_t add_device(Device device);
  /// Adds a node that only forwards (a switch, a host bridge) and returns its node number.
  std::int32_t add_switch(std::string name);
  /// Adds a one-way link. Node numbers are those that add_device() and add_switch() returned. The finished
  /// cluster numbers its nodes anew (see Link).
  void add_link(std::int32_t from, std::int32_t to, double bytes_per_second, std::int64_t latency_ns);
  /// Adds one link in each direction (full duplex): first from a to b, then from b to a.
  void add_duplex_link(std::int32_t a, std::int32_t b, double bytes_per_second, std::int64_t latency_ns);

  /// States that the devices lie on that grid, in the order in which they are added. Requires as many devices
  /// as the grid has places.
  void set_torus(Torus torus) { torus_ = std::move(torus); }

  /// Returns the cluster. Errors: no device; a device whose memory or rate is out of range; a link with an
  /// unknown node, with both ends on one node, with a bandwidth that is not positive or a negative latency; a
  /// pair of devices without a route; more than kMostLinks or kMostRouteEntries. Each message names the
  /// device or link.
  tl::expected<Cluster, std::string> build() const;

 private:
  struct Node {
    std::string name;
    std::int32_t device = -1;  // index into devices_, or -1 for a switch
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
  std::vector<Link> links_;  // without names, between nodes_
  std::optional<Torus> torus_;
};

/// Returns how long `bytes` (>= 0) occupy a link or route of this bandwidth (> 0): bytes / bandwidth, rounded
/// up to a whole nanosecond. An excess below 1e-6 ns is ignored as an error of the floating-point division.
/// Returns 0 for unlimited bandwidth, and the largest std::int64_t if the result does not fit.
std::int64_t serialization_ns(std::int64_t bytes, double bytes_per_second);

}  // namespace penstock
