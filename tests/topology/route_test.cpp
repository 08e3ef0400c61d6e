// Routes on networks drawn by hand, where the right answer can be seen.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

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
  // Both ways are three links long; "0>1" is link 0 and "0>5" is link 11.
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
