// Every route of seeded random networks against the slow reference: few different latencies and
// bandwidths, so that ties of all kinds are common.

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "tests/topology/reference_routes.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

/// Draws whole numbers; the standard distributions differ between libraries, this does not.
class Dice {
 public:
  explicit Dice(std::uint32_t seed) : engine_(seed) {}
  /// From 0 to `sides` - 1.
  std::int32_t roll(std::int32_t sides) {
    return static_cast<std::int32_t>(engine_() % static_cast<std::uint32_t>(sides));
  }

 private:
  std::mt19937 engine_;
};

/// A network with devices first, so that the builder's node numbers are the cluster's.
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

/// All devices joined directly, some pairs more than once, by links that detours may beat.
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

/// The routes of all ordered pairs of devices, or nothing when a pair has none.
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
  // Both outcomes are common, so that neither goes untested.
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
