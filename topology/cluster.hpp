#pragma once
// The machine: devices, directed links and the routes between devices. Built by presets.hpp, by
// ClusterBuilder, or by scenarios/ from YAML; read by the engines. How routes are found: next_links.hpp.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

namespace penstock {

inline constexpr double kUnlimitedBandwidth = std::numeric_limits<double>::infinity();

/// The largest clusters that are built, so that a slip of the pen is refused and does not fill the
/// memory: 2^22 links take 256 MiB, and so do 2^26 entries (devices * nodes) of the table of routes.
inline constexpr std::int64_t kMostLinks = std::int64_t{1} << 22;
inline constexpr std::int32_t kMostJoinedDevices = 1 << 24;  // their names take about a gigabyte
inline constexpr std::int64_t kMostRouteEntries = std::int64_t{1} << 26;

/// Returns the bytes of a device that a plan may use: its memory without what is reserved, and never less
/// than 0. Nothing where the memory is unlimited. Every question whether something fits is asked of this
/// figure.
constexpr std::optional<std::int64_t> usable_bytes(std::optional<std::int64_t> memory_bytes,
                                                   std::int64_t reserved_bytes) {
  if (!memory_bytes) return std::nullopt;
  return std::max<std::int64_t>(0, *memory_bytes - reserved_bytes);
}

/// One accelerator.
struct Device {
  std::string name{};  ///< empty: ClusterBuilder calls it "device" and its index
  std::optional<std::int64_t> memory_bytes = std::nullopt;  ///< > 0; absent: unlimited
  std::int64_t reserved_bytes = 0;     ///< >= 0; of its memory, what the driver and libraries take
  double flops_per_second = 0;         ///< peak rate, >= 0; 0: unknown
  double memory_bytes_per_second = 0;  ///< >= 0; 0: unknown

  friend bool operator==(const Device&, const Device&) = default;
};

/// A one-way connection between two nodes of the cluster. Nodes 0..n-1 are the devices in order; the
/// switches follow.
struct Link {
  std::string name;  ///< "a>b" for reports; the second link from a to b is "a>b#2"
  std::int32_t from = 0;
  std::int32_t to = 0;
  double bytes_per_second = kUnlimitedBandwidth;  ///< > 0
  std::int64_t latency_ns = 0;                    ///< >= 0

  friend bool operator==(const Link&, const Link&) = default;
};

/// The number of a link: n devices that are all joined have n(n-1).
using LinkNumber = std::int64_t;

/// The way from one device to another: indices into Cluster::links() in order, the least bandwidth and
/// the summed latency.
struct Route {
  std::vector<LinkNumber> links;
  double bytes_per_second = kUnlimitedBandwidth;
  std::int64_t latency_ns = 0;

  friend bool operator==(const Route&, const Route&) = default;
};

/// Devices 0..n-1, the links among them (over switches), and the best route of every ordered pair. An
/// immutable value: routes are found once, by ClusterBuilder, and copies share them.
class Cluster {
 public:
  /// A cluster without devices.
  Cluster() : data_(std::make_shared<const Data>()) {}

  const std::string& name() const { return data_->name; }
  const std::vector<Device>& devices() const { return data_->devices; }
  /// All links, in the order of their numbers. O(links); of devices that are all joined directly they are
  /// n(n-1).
  std::vector<Link> links() const;
  /// The link of that number, as routes have it.
  Link link(LinkNumber number) const;
  double link_bytes_per_second(LinkNumber number) const {
    return data_->direct ? data_->direct->bytes_per_second
                         : data_->links[static_cast<std::size_t>(number)].bytes_per_second;
  }
  /// Of the widest link; unlimited where there is none.
  double most_bytes_per_second() const;
  /// Of the narrowest link; unlimited where there is none.
  double least_bytes_per_second() const;
  /// Of all links together, of devices that are all joined directly that of one: no route has more.
  std::int64_t latency_of_all_links_ns() const;
  std::int32_t device_count() const { return static_cast<std::int32_t>(data_->devices.size()); }

  /// The route with the least latency, then the fewest links, then the most bandwidth (of its narrowest
  /// link). Where several are equal in all three, every node on the way takes its lowest-numbered link
  /// that begins one of them, so that the routes to one device form a tree. Devices forward like
  /// switches. Empty (unlimited, 0 ns) from a device to itself. Requires valid indices.
  Route route(std::int32_t from, std::int32_t to) const;

  /// Devices with an equal link for every ordered pair: no two pairs share one, and every route is a link.
  /// They are not listed anywhere, so that thousands of devices take no more than their names. At most
  /// kMostJoinedDevices.
  static Cluster fully_joined(std::string name, std::vector<Device> devices, double bytes_per_second,
                              std::int64_t latency_ns);

  /// Equal name, devices and links; equal routes follow from these.
  friend bool operator==(const Cluster& a, const Cluster& b);

 private:
  friend class ClusterBuilder;
  struct Data {
    std::string name;
    std::vector<Device> devices;
    std::vector<Link> links;
    std::int32_t node_count = 0;
    std::vector<std::int32_t> next_links;  // as next_links.hpp has it
    std::optional<Link> direct{};          // every ordered pair's, and then the two above are empty
  };
  explicit Cluster(Data data) : data_(std::make_shared<const Data>(std::move(data))) {}

  std::shared_ptr<const Data> data_;
};

/// Collects nodes and links, then finds the routes.
class ClusterBuilder {
 public:
  explicit ClusterBuilder(std::string name) : name_(std::move(name)) {}

  /// Adds a device and returns its node number. Devices are numbered by the order of these calls.
  std::int32_t add_device(Device device);
  /// Adds a node that only forwards (a switch, a host bridge) and returns its node number.
  std::int32_t add_switch(std::string name);
  /// Adds a one-way link. Node numbers are those that add_device and add_switch returned; the finished
  /// cluster numbers its nodes anew (see Link).
  void add_link(std::int32_t from, std::int32_t to, double bytes_per_second, std::int64_t latency_ns);
  /// Adds one link each way (full duplex): first a to b, then b to a.
  void add_duplex_link(std::int32_t a, std::int32_t b, double bytes_per_second, std::int64_t latency_ns);

  /// The cluster. Errors: no device; a device whose memory or rate is out of range; a link with an
  /// unknown node, with both ends on one node, with a bandwidth that is not positive or a negative
  /// latency; a pair of devices that no route joins; more than kMostLinks or kMostRouteEntries. Each
  /// names the device or link.
  tl::expected<Cluster, std::string> build() const;

 private:
  struct Node {
    std::string name;
    std::int32_t device = -1;  // index into devices_, -1: a switch
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
  std::vector<Link> links_;  // unnamed, between nodes_
};

/// How long `bytes` (>= 0) hold a link or route of this bandwidth (> 0): bytes / bandwidth, rounded up to
/// a whole nanosecond; an excess below 1e-6 ns is taken for an error of floating-point division and does
/// not count. 0 when unlimited, the largest std::int64_t when it does not fit one.
std::int64_t serialization_ns(std::int64_t bytes, double bytes_per_second);

}  // namespace penstock
