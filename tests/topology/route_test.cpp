// Tests routes on small networks, for which the drawings show the right answer. Then compares all routes of
// random networks with a slow reference.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tl/expected.hpp>

#include "tests/topology/way.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

//            core
//          /      \       40 bytes/s, 7 ns each way
//        s0        s1
//       /  \         \    100 bytes/s, 2 ns each way
//      a    b         c
Cluster tree() {
  ClusterBuilder builder("tree");
  const auto core = builder.add_switch("core");
  const auto s0 = builder.add_switch("s0");
  const auto a = builder.add_device({.name = "a"});
  const auto b = builder.add_device({.name = "b"});
  const auto s1 = builder.add_switch("s1");
  const auto c = builder.add_device({.name = "c"});
  builder.add_duplex_link(core, s0, 40, 7);
  builder.add_duplex_link(core, s1, 40, 7);
  for (const auto device : {a, b}) builder.add_duplex_link(device, s0, 100, 2);
  builder.add_duplex_link(c, s1, 100, 2);
  return builder.build().value();
}

TEST(Route, GoesUpAndDownATree) {
  const auto cluster = tree();
  EXPECT_THAT(way(cluster, 0, 1), ElementsAre("a>s0", "s0>b"));
  EXPECT_THAT(way(cluster, 0, 2), ElementsAre("a>s0", "s0>core", "core>s1", "s1>c"));
  EXPECT_THAT(way(cluster, 2, 1), ElementsAre("c>s1", "s1>core", "core>s0", "s0>b"));
}

TEST(Route, SumsLatencyAndTakesTheNarrowestBandwidth) {
  const auto cluster = tree();
  EXPECT_EQ(cluster.route(0, 1).latency_ns, 4);
  EXPECT_EQ(cluster.route(0, 1).bytes_per_second, 100);
  EXPECT_EQ(cluster.route(0, 2).latency_ns, 18);
  EXPECT_EQ(cluster.route(0, 2).bytes_per_second, 40);
}

TEST(Route, FromADeviceToItselfIsEmptyAndFree) {
  EXPECT_EQ(tree().route(1, 1), Route{});
  EXPECT_THAT(Route{}.links, IsEmpty());
  EXPECT_EQ(Route{}.bytes_per_second, kUnlimitedBandwidth);
  EXPECT_EQ(Route{}.latency_ns, 0);
}

TEST(Route, TakesTheShorterWayRoundARing) {
  constexpr std::int32_t devices = 6;
  ClusterBuilder builder("ring");
  for (std::int32_t i = 0; i < devices; ++i) builder.add_device({.name = std::to_string(i)});
  for (std::int32_t i = 0; i < devices; ++i) builder.add_duplex_link(i, (i + 1) % devices, 10, 1);
  const auto ring = builder.build().value();
  EXPECT_THAT(way(ring, 0, 2), ElementsAre("0>1", "1>2"));
  EXPECT_THAT(way(ring, 0, 4), ElementsAre("0>5", "5>4"));
  // Both routes have three links. The one that begins with the lower link number is used: "0>1" is link 0 and
  // "0>5" is link 11.
  EXPECT_THAT(way(ring, 0, 3), ElementsAre("0>1", "1>2", "2>3"));
}

TEST(Route, AlongAOneWayRingGoesAllTheWayRound) {
  ClusterBuilder builder("one-way ring");
  for (const auto* const name : {"a", "b", "c"}) builder.add_device({.name = name});
  builder.add_link(0, 1, 10, 5);
  builder.add_link(1, 2, 10, 5);
  builder.add_link(2, 0, 10, 5);
  const auto ring = builder.build().value();
  EXPECT_THAT(way(ring, 1, 0), ElementsAre("b>c", "c>a"));
}

TEST(Route, PrefersLessLatencyOverFewerLinks) {
  ClusterBuilder builder("detour");
  for (const auto* const name : {"a", "b", "c"}) builder.add_device({.name = name});
  builder.add_duplex_link(0, 2, 10, 9);
  builder.add_duplex_link(0, 1, 10, 4);
  builder.add_duplex_link(1, 2, 10, 4);
  EXPECT_THAT(way(builder.build().value(), 0, 2), ElementsAre("a>b", "b>c"));
}

TEST(Route, PrefersFewerLinksOverMoreBandwidth) {
  ClusterBuilder builder("equal latency");
  for (const auto* const name : {"a", "b", "c"}) builder.add_device({.name = name});
  builder.add_duplex_link(0, 1, 1000, 4);
  builder.add_duplex_link(1, 2, 1000, 4);
  builder.add_duplex_link(0, 2, 10, 8);
  EXPECT_THAT(way(builder.build().value(), 0, 2), ElementsAre("a>c"));
}

TEST(Route, PrefersMoreBandwidthAmongParallelLinks) {
  ClusterBuilder builder("parallel");
  for (const auto* const name : {"a", "b"}) builder.add_device({.name = name});
  builder.add_duplex_link(0, 1, 10, 4);
  builder.add_duplex_link(0, 1, 30, 4);
  builder.add_duplex_link(0, 1, 20, 4);
  builder.add_duplex_link(0, 1, 90, 5);
  const auto cluster = builder.build().value();
  EXPECT_THAT(way(cluster, 0, 1), ElementsAre("a>b#2"));
  EXPECT_EQ(cluster.route(1, 0).bytes_per_second, 30);
}

TEST(Route, TakesTheFirstOfEqualLinks) {
  ClusterBuilder builder("twins");
  for (const auto* const name : {"a", "b"}) builder.add_device({.name = name});
  builder.add_duplex_link(0, 1, 10, 4);
  builder.add_duplex_link(0, 1, 10, 4);
  EXPECT_THAT(builder.build().value().route(0, 1).links, ElementsAre(0));
}

//   a --5-- x --50-- b     all 1 ns; the upper and the lower way from x to b are equal for a, since its
//           x --90-- b     own link is narrower, but not for x: it takes the wider one
TEST(Route, ForwardsOnTheWiderLinkBehindABottleneck) {
  ClusterBuilder builder("bottleneck");
  for (const auto* const name : {"a", "x", "b"}) builder.add_device({.name = name});
  builder.add_duplex_link(0, 1, 5, 1);
  builder.add_duplex_link(1, 2, 50, 1);
  builder.add_duplex_link(1, 2, 90, 1);
  EXPECT_THAT(way(builder.build().value(), 0, 2), ElementsAre("a>x", "x>b#2"));
}

TEST(Route, LeadsOverDevicesLikeOverSwitches) {
  ClusterBuilder builder("chain");
  for (const auto* const name : {"a", "b", "c", "d"}) builder.add_device({.name = name});
  for (std::int32_t i = 0; i < 3; ++i) builder.add_duplex_link(i, i + 1, 10, 0);
  EXPECT_THAT(way(builder.build().value(), 3, 0), ElementsAre("d>c", "c>b", "b>a"));
}

TEST(Route, SaturatesHugeLatencies) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  ClusterBuilder builder("far away");
  for (const auto* const name : {"a", "b", "c"}) builder.add_device({.name = name});
  builder.add_duplex_link(0, 1, 10, most - 1);
  builder.add_duplex_link(1, 2, 10, most - 1);
  EXPECT_EQ(builder.build().value().route(0, 2).latency_ns, most);
}

TEST(Cluster, NumbersDevicesBeforeSwitches) {
  const auto cluster = tree();
  ASSERT_EQ(cluster.device_count(), 3);
  EXPECT_EQ(cluster.devices()[2].name, "c");
  std::map<std::string, std::int32_t> sources;
  for (const auto& link : cluster.links()) sources[link.name.substr(0, link.name.find('>'))] = link.from;
  EXPECT_THAT(sources, ElementsAre(Pair("a", 0), Pair("b", 1), Pair("c", 2), Pair("core", 3), Pair("s0", 4),
                                   Pair("s1", 5)));
}

TEST(Cluster, KeepsTheOrderInWhichLinksWereAdded) {
  const auto cluster = tree();
  ASSERT_EQ(cluster.links().size(), 10U);
  EXPECT_EQ(cluster.links()[0].name, "core>s0");
  EXPECT_EQ(cluster.links()[1].name, "s0>core");
  EXPECT_EQ(cluster.links()[9].name, "s1>c");
}

TEST(Cluster, NamesADeviceWithoutANameByItsIndex) {
  ClusterBuilder builder("nameless");
  builder.add_switch("s");
  const auto only = builder.add_device({});
  EXPECT_EQ(only, 1);
  EXPECT_EQ(builder.build().value().devices()[0].name, "device0");
}

TEST(Cluster, HasNoDeviceByDefault) {
  const Cluster cluster;
  EXPECT_EQ(cluster.device_count(), 0);
  EXPECT_THAT(cluster.links(), IsEmpty());
  EXPECT_EQ(cluster, Cluster{});
}

TEST(Cluster, ComparesByNameDevicesAndLinks) {
  const auto cluster = uniform_cluster({.devices = 3, .latency_ns = 4}).value();
  EXPECT_EQ(cluster, uniform_cluster({.devices = 3, .latency_ns = 4}).value());
  EXPECT_NE(cluster, uniform_cluster({.devices = 3, .latency_ns = 5}).value());
  EXPECT_NE(cluster, uniform_cluster({.devices = 2, .latency_ns = 4}).value());
  EXPECT_NE(cluster, uniform_cluster({.devices = 3, .latency_ns = 4, .memory_bytes = 1}).value());
  EXPECT_NE(cluster, Cluster{});
}

TEST(Cluster, OfOneDeviceNeedsNoLink) {
  ClusterBuilder builder("lonely");
  builder.add_device({.name = "a"});
  EXPECT_EQ(builder.build().value().route(0, 0), Route{});
}

}  // namespace

}  // namespace penstock

namespace penstock::reference {

// Slow and simple routes that are compared with Cluster::route(): the three loops of Floyd and Warshall over
// all nodes, and then a search that tries the links in order.

/// The latency, the number of links and the smallest bandwidth of the best route.
struct Way {
  std::int64_t latency_ns = 0;
  std::int64_t links = 0;
  double bytes_per_second = kUnlimitedBandwidth;

  friend bool operator==(const Way&, const Way&) = default;
};
using Ways = std::vector<std::vector<std::optional<Way>>>;

inline std::optional<Way> joined(const std::optional<Way>& a, const std::optional<Way>& b) {
  if (!a || !b) return std::nullopt;
  return Way{a->latency_ns + b->latency_ns, a->links + b->links,
             std::min(a->bytes_per_second, b->bytes_per_second)};
}

inline std::optional<Way> better(const std::optional<Way>& a, const std::optional<Way>& b) {
  if (!a || !b) return a ? a : b;
  const auto order = [](const Way& way) {
    return std::tuple(way.latency_ns, way.links, -way.bytes_per_second);
  };
  return order(*b) < order(*a) ? b : a;
}

inline Way way_of(const Link& link) { return {link.latency_ns, 1, link.bytes_per_second}; }

/// Returns the best route of every ordered pair of nodes.
inline Ways best_ways(std::span<const Link> links, std::int32_t nodes) {
  Ways best(nodes, std::vector<std::optional<Way>>(nodes));
  for (std::int32_t node = 0; node < nodes; ++node) best[node][node] = Way{};
  for (const auto& link : links) best[link.from][link.to] = better(best[link.from][link.to], way_of(link));
  for (std::int32_t via = 0; via < nodes; ++via) {
    for (std::int32_t from = 0; from < nodes; ++from) {
      for (std::int32_t to = 0; to < nodes; ++to) {
        best[from][to] = better(best[from][to], joined(best[from][via], best[via][to]));
      }
    }
  }
  return best;
}

/// Returns the route that Cluster::route() must return, or nothing if there is none.
inline std::optional<Route> route(std::span<const Link> links, const Ways& best, std::int32_t from,
                                  std::int32_t to) {
  const auto& way = best[from][to];
  if (!way) return std::nullopt;
  Route route{{}, way->bytes_per_second, way->latency_ns};
  for (auto node = from; node != to;) {
    const auto found = std::ranges::find_if(links, [&](const Link& link) {
      return link.from == node && joined(way_of(link), best[link.to][to]) == best[node][to];
    });
    route.links.push_back(static_cast<std::int32_t>(found - links.begin()));
    node = found->to;
  }
  return route;
}

}  // namespace penstock::reference

namespace penstock {

// Compares every route of random networks with the slow reference. The networks have few different latencies
// and bandwidths, so equal routes of all kinds are common.

namespace {

/// A source of random integers. The distributions of the standard library differ between implementations, and
/// this class does not.
class Dice {
 public:
  explicit Dice(std::uint32_t seed) : engine_(seed) {}
  /// Returns a number from 0 to `sides` - 1.
  std::int32_t roll(std::int32_t sides) {
    return static_cast<std::int32_t>(engine_() % static_cast<std::uint32_t>(sides));
  }

 private:
  std::mt19937 engine_;
};

/// A network in which devices are the first nodes, so that builder and cluster number the nodes equally.
struct Network {
  std::int32_t devices = 0;
  std::int32_t nodes = 0;
  std::vector<Link> links;
};

Network random_network(std::uint32_t seed) {
  Dice dice(seed);
  Network network;
  network.devices = 1 + dice.roll(8);
  network.nodes = network.devices + dice.roll(5);
  const auto links = network.nodes == 1 ? 0 : dice.roll(5 * network.nodes);
  for (std::int32_t i = 0; i < links; ++i) {
    const auto from = dice.roll(network.nodes);
    const auto to = (from + 1 + dice.roll(network.nodes - 1)) % network.nodes;
    network.links.push_back({"", from, to, 10.0 * (1 + dice.roll(3)), dice.roll(3)});
  }
  return network;
}

/// Returns a network in which all devices have direct links, some pairs several. Routes over other devices
/// may be better than a direct link.
Network random_mesh(std::uint32_t seed) {
  Dice dice(seed);
  Network network;
  network.devices = network.nodes = 2 + dice.roll(6);
  for (std::int32_t from = 0; from < network.nodes; ++from) {
    for (std::int32_t to = 0; to < network.nodes; ++to) {
      for (auto copies = from == to ? 0 : 1 + dice.roll(2); copies > 0; --copies) {
        network.links.push_back({"", from, to, 10.0 * (1 + dice.roll(3)), 2 + dice.roll(4)});
      }
    }
  }
  return network;
}

tl::expected<Cluster, std::string> built(const Network& network) {
  ClusterBuilder builder("random");
  for (std::int32_t i = 0; i < network.devices; ++i) builder.add_device({});
  for (auto i = network.devices; i < network.nodes; ++i) builder.add_switch("switch");
  for (const auto& link : network.links) {
    builder.add_link(link.from, link.to, link.bytes_per_second, link.latency_ns);
  }
  return builder.build();
}

/// The routes of all ordered pairs of devices. Absent if a pair has no route.
using AllRoutes = std::optional<std::vector<Route>>;

AllRoutes reference_routes(const Network& network) {
  const auto best = reference::best_ways(network.links, network.nodes);
  std::vector<Route> routes;
  for (std::int32_t from = 0; from < network.devices; ++from) {
    for (std::int32_t to = 0; to < network.devices; ++to) {
      const auto route = reference::route(network.links, best, from, to);
      if (!route) return std::nullopt;
      routes.push_back(*route);
    }
  }
  return routes;
}

AllRoutes cluster_routes(const Network& network) {
  const auto cluster = built(network);
  if (!cluster) return std::nullopt;
  std::vector<Route> routes;
  for (std::int32_t from = 0; from < network.devices; ++from) {
    for (std::int32_t to = 0; to < network.devices; ++to) routes.push_back(cluster->route(from, to));
  }
  return routes;
}

TEST(RouteReference, AgreesOnRandomNetworks) {
  std::int32_t connected = 0;
  for (std::uint32_t seed = 0; seed < 3000; ++seed) {
    const auto expected = reference_routes(random_network(seed));
    ASSERT_EQ(cluster_routes(random_network(seed)), expected) << "seed " << seed;
    if (expected) ++connected;
  }
  // Both networks with all routes and networks without some must be common, so that both cases are tested.
  EXPECT_GT(connected, 800);
  EXPECT_LT(connected, 2200);
}

TEST(RouteReference, AgreesOnRandomMeshes) {
  for (std::uint32_t seed = 0; seed < 1000; ++seed) {
    ASSERT_EQ(cluster_routes(random_mesh(seed)), reference_routes(random_mesh(seed))) << "seed " << seed;
  }
}

}  // namespace
}  // namespace penstock
