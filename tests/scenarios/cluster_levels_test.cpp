// Clusters given link by link as levels of bandwidth, and the same machines with their devices numbered anew.

#include "scenarios/partition/cluster_levels.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "scenarios/prepare/planned_scenario.hpp"
#include "scenarios/read/cluster_spec.hpp"
#include "scenarios/read/scenario.hpp"
#include "tests/scenarios/read_scenario.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

using Levels = std::vector<BandwidthLevel>;

Cluster cluster_of(const std::string& text) {
  return std::get<Cluster>(read_scenario("cluster: " + text + "\n").cluster.shape);
}

//   a0 --+               +-- b0       8 GB/s to a server's switch, 1 GB/s between switches
//        a ---- top ---- b
//   a1 --+               +-- b1
/// Two servers of two devices around a switch; the file lists the servers' devices in turn.
const std::string kTree =
    "{devices: [a0, b0, a1, b1], switches: [a, b, top], links: [{between: [a0, a], bandwidth: 8 GB/s}, "
    "{between: [a1, a], bandwidth: 8 GB/s}, {between: [b0, b], bandwidth: 8 GB/s}, {between: [b1, b], "
    "bandwidth: 8 GB/s}, {between: [a, top], bandwidth: 1 GB/s, latency: 5 us}, {between: [top, b], "
    "bandwidth: 1 GB/s}]}";

TEST(ClusterLevels, AreTwoWhereServersSurroundANetwork) {
  const ClusterLevels levels = cluster_levels(cluster_of(kTree));
  EXPECT_EQ(levels.levels, (Levels{{2, 8e9}, {2, 1e9}}));
  EXPECT_EQ(levels.devices, (std::vector{0, 2, 1, 3}));  // a0 a1, b0 b1
  EXPECT_EQ(to_text(levels),
            "the cluster given link by link is planned as 2 groups of 2 devices, with 8 GB/s inside a group "
            "and 1 GB/s between groups, its narrowest routes");
}

TEST(ClusterLevels, AreOneWhereAllRoutesAreEqual) {
  const ClusterLevels levels = cluster_levels(cluster_of(
      "{devices: [x, y, z], links: [{between: [x, y], bandwidth: 3 GB/s}, {between: [y, z], bandwidth: 3 "
      "GB/s}]}"));
  EXPECT_EQ(levels.levels, (Levels{{3, 3e9}}));
  EXPECT_EQ(levels.devices, (std::vector{0, 1, 2}));
  EXPECT_EQ(
      to_text(levels),
      "the cluster given link by link is planned as 3 devices with 3 GB/s between any two, its narrowest "
      "route");
}

TEST(ClusterLevels, AreOneWhereGroupsDifferInSize) {
  EXPECT_EQ(cluster_levels(cluster_of("{devices: [x, y, z], links: [{between: [x, y], bandwidth: 3 GB/s}, "
                                      "{between: [y, z], bandwidth: 2 GB/s}]}"))
                .levels,
            (Levels{{3, 2e9}}));
}

TEST(ClusterLevels, AreOneWhereNoGroupsAreApart) {
  // A chain of direct links: w reaches x fast, and x y, but not w y, whose own link is the shortest way.
  EXPECT_EQ(cluster_levels(cluster_of("{devices: [w, x, y, z], links: [{between: [w, x], bandwidth: 3 GB/s}, "
                                      "{between: [x, y], bandwidth: 3 GB/s}, {between: [y, z], bandwidth: 3 "
                                      "GB/s}, {between: [w, y], bandwidth: 1 GB/s}, {between: [w, z], "
                                      "bandwidth: 1 GB/s}, {between: [x, z], bandwidth: 1 GB/s}]}"))
                .levels,
            (Levels{{4, 1e9}}));
}

TEST(ClusterLevels, OfASingleDeviceAreOneOfUnlimitedBandwidth) {
  EXPECT_EQ(cluster_levels(cluster_of("{devices: [x], links: []}")).levels,
            (Levels{{1, kUnlimitedBandwidth}}));
}

TEST(DeviceOrder, LeavesTheMachineAsItIs) {
  const Cluster cluster = cluster_of(kTree);
  const std::vector<std::int32_t> order = {3, 0, 2, 1};
  const auto ordered = in_device_order(cluster, order);
  ASSERT_TRUE(ordered) << ordered.error();
  const auto names_on = [](const Cluster& machine, const Route& route) {
    std::vector<std::string> names;
    for (const auto link : route.links) names.push_back(machine.links()[link].name);
    return names;
  };
  for (std::int32_t a = 0; a < 4; ++a) {
    EXPECT_EQ(ordered->devices()[a], cluster.devices()[order[a]]);
    for (std::int32_t b = 0; b < 4; ++b) {
      const Route before = cluster.route(order[a], order[b]);
      const Route after = ordered->route(a, b);
      EXPECT_EQ(names_on(*ordered, after), names_on(cluster, before));
      EXPECT_EQ(after.bytes_per_second, before.bytes_per_second);
      EXPECT_EQ(after.latency_ns, before.latency_ns);
    }
  }
}

// Names of switches are read off those of links, which count parallel ones: "x>s", "x>s#2".
TEST(DeviceOrder, KeepsTheNamesOfParallelLinks) {
  const Cluster cluster = cluster_of(
      "{devices: [x, y], switches: [s], links: [{between: [x, s]}, {between: [x, s]}, {between: [s, y]}]}");
  const auto ordered = in_device_order(cluster, std::vector<std::int32_t>{1, 0});
  ASSERT_TRUE(ordered) << ordered.error();
  ASSERT_EQ(ordered->links().size(), cluster.links().size());
  for (std::size_t link = 0; link < cluster.links().size(); ++link)
    EXPECT_EQ(ordered->links()[link].name, cluster.links()[link].name);
}

TEST(PlannedScenario, SeesTheServersOfAClusterGivenLinkByLink) {
  // A light layer, then a heavy one that is better not replicated over the network.
  const std::string model =
      "model: {layers: [{name: light, forward: 5 ms, backward: 10 ms}, "
      "{name: heavy, forward: 5 ms, backward: 10 ms, weights: 400 MB}]}\n";
  const auto by_links = plan_scenario(read_scenario(model + "cluster: " + kTree + "\n"), {});
  const auto by_preset = plan_scenario(
      read_scenario(model + "cluster: {preset: two-level, nodes: 2, devices_per_node: 2, intra_bandwidth: 8 "
                            "GB/s, inter_bandwidth: 1 GB/s}\n"),
      {});
  ASSERT_TRUE(by_links) << by_links.error();
  ASSERT_TRUE(by_preset) << by_preset.error();
  EXPECT_DOUBLE_EQ(by_links->plan.period_ns, by_preset->plan.period_ns);
  EXPECT_EQ(by_links->scenario.shape.replicas, by_preset->scenario.shape.replicas);
  // Ranks 0, 1, ... run on what the plan calls a0, a1, b0, b1.
  const Experiment experiment = prepared(by_links->scenario);
  std::vector<std::string> devices;
  for (const PlannedStage& stage : by_links->plan.stages) {
    for (const std::int32_t device : stage.devices)
      devices.push_back(experiment.cluster.devices()[devices.size()].name + "=" + std::to_string(device));
  }
  EXPECT_EQ(devices, (std::vector<std::string>{"a0=0", "a1=2", "b0=1", "b1=3"}));
  ASSERT_EQ(by_links->scenario.notes.size(), 1);
  EXPECT_NE(by_links->scenario.notes.front().find("2 groups of 2 devices"), std::string::npos);
}

}  // namespace
}  // namespace penstock
