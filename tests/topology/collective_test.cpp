// Compares the costs of ring collectives with the formula 2(n-1)/n * bytes/B + 2(n-1)a.

#include "topology/collective.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

constexpr auto kMost = std::numeric_limits<std::int64_t>::max();

std::vector<std::int32_t> first_devices(std::int32_t count) {
  std::vector<std::int32_t> devices(count);
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

/// Returns the cost over the first `ranks` devices of a uniform cluster. On its links, a byte takes 1 ns and
/// the latency is 7 ns.
RingCost uniform_ring(std::int64_t ranks, Collective collective, std::int64_t bytes) {
  const auto cluster = uniform_cluster({.devices = 16, .bytes_per_second = 1e9, .latency_ns = 7}).value();
  return ring_cost(cluster, first_devices(static_cast<std::int32_t>(ranks)), collective, bytes);
}

// 720720 is a multiple of every n up to 16, so nothing is rounded.
TEST(RingCost, OfAllReduceIsTheClosedFormOnUniformLinks) {
  for (std::int64_t n = 1; n <= 16; ++n) {
    const auto cost = uniform_ring(n, Collective::all_reduce, 720720);
    EXPECT_EQ(cost.bytes_per_link, 2 * (n - 1) * (720720 / n)) << n;
    EXPECT_EQ(cost.duration_ns, 2 * (n - 1) * (720720 / n) + 2 * (n - 1) * 7) << n;
  }
}

TEST(RingCost, OfReduceScatterAndOfAllGatherIsHalfAnAllReduce) {
  for (std::int64_t n = 1; n <= 16; ++n) {
    const auto all_reduce = uniform_ring(n, Collective::all_reduce, 720720);
    const auto all_gather = uniform_ring(n, Collective::all_gather, 720720);
    EXPECT_EQ(uniform_ring(n, Collective::reduce_scatter, 720720), all_gather) << n;
    EXPECT_EQ(2 * all_gather.bytes_per_link, all_reduce.bytes_per_link) << n;
    EXPECT_EQ(2 * all_gather.duration_ns, all_reduce.duration_ns) << n;
  }
}

TEST(RingCost, OfOneOrNoDeviceIsNothing) {
  const auto cluster = uniform_cluster({.devices = 2, .bytes_per_second = 1, .latency_ns = 9}).value();
  EXPECT_EQ(ring_cost(cluster, {}, Collective::all_reduce, 100), RingCost{});
  EXPECT_EQ(ring_cost(cluster, std::vector{1}, Collective::all_reduce, 100), RingCost{});
}

TEST(RingCost, RoundsBytesUp) {
  const auto cluster = uniform_cluster({.devices = 3, .bytes_per_second = 1e9}).value();
  // 4/3 of 10 bytes are 13 1/3, 2/3 are 6 2/3.
  EXPECT_EQ(ring_cost(cluster, first_devices(3), Collective::all_reduce, 10).bytes_per_link, 14);
  EXPECT_EQ(ring_cost(cluster, first_devices(3), Collective::all_gather, 10).bytes_per_link, 7);
}

TEST(RingCost, OfNoBytesIsItsLatency) {
  const auto cluster = uniform_cluster({.devices = 4, .bytes_per_second = 1, .latency_ns = 9}).value();
  EXPECT_EQ(ring_cost(cluster, first_devices(4), Collective::all_reduce, 0).duration_ns, 6 * 9);
  EXPECT_EQ(ring_cost(cluster, first_devices(4), Collective::all_gather, 0).duration_ns, 3 * 9);
}

// Each of two servers has two devices. The ring 0>1>2>3>0 crosses the uplinks of 1 GB/s, and the ring 0>1>0
// does not.
TEST(RingCost, FollowsTheSlowestRouteOfTheRing) {
  const auto cluster = two_level_cluster({.nodes = 2,
                                          .devices_per_node = 2,
                                          .intra_bytes_per_second = 4e9,
                                          .intra_latency_ns = 10,
                                          .inter_bytes_per_second = 1e9,
                                          .inter_latency_ns = 100})
                           .value();
  const auto inside = ring_cost(cluster, first_devices(2), Collective::all_reduce, 4000);
  EXPECT_EQ(inside.duration_ns, 1000 + 2 * 10);
  const auto across = ring_cost(cluster, first_devices(4), Collective::all_reduce, 4000);
  EXPECT_EQ(across.bytes_per_second, 1e9);
  EXPECT_EQ(across.latency_ns, 6 * 110);
  EXPECT_EQ(across.duration_ns, 6000 + 6 * 110);
}

//   0 -> 1 -> 2 -> 0 is fast, the other way round is slow.
TEST(RingCost, GoesRoundInTheOrderOfTheGroup) {
  ClusterBuilder builder("one way fast");
  for (int i = 0; i < 3; ++i) builder.add_device({});
  for (std::int32_t i = 0; i < 3; ++i) {
    builder.add_link(i, (i + 1) % 3, 1e9, 1);
    builder.add_link((i + 1) % 3, i, 1e6, 1);
  }
  const auto cluster = builder.build().value();
  EXPECT_EQ(ring_cost(cluster, std::vector{0, 1, 2}, Collective::all_gather, 300).duration_ns, 200 + 2);
  EXPECT_EQ(ring_cost(cluster, std::vector{2, 1, 0}, Collective::all_gather, 300).duration_ns, 200'000 + 2);
}

//   0 <-> 1 <-> 2        the route from 2 back to 0 has two links
TEST(RingCost, IncludesTheRouteThatClosesTheRing) {
  ClusterBuilder builder("chain");
  for (int i = 0; i < 3; ++i) builder.add_device({});
  builder.add_duplex_link(0, 1, 1e9, 10);
  builder.add_duplex_link(1, 2, 1e9, 10);
  const auto cost = ring_cost(builder.build().value(), first_devices(3), Collective::all_gather, 300);
  EXPECT_EQ(cost.latency_ns, 2 * 20);
}

TEST(RingCost, IsOnlyLatencyOnUnlimitedLinks) {
  const auto cluster = uniform_cluster({.devices = 2, .latency_ns = 3}).value();
  EXPECT_EQ(ring_cost(cluster, first_devices(2), Collective::all_reduce, kMost).duration_ns, 6);
}

TEST(RingCost, SaturatesWhereItDoesNotFit) {
  const auto slow = uniform_cluster({.devices = 3, .bytes_per_second = 1, .latency_ns = kMost}).value();
  const auto cost = ring_cost(slow, first_devices(3), Collective::all_reduce, kMost);
  EXPECT_EQ(cost.bytes_per_link, kMost);
  EXPECT_EQ(cost.latency_ns, kMost);
  EXPECT_EQ(cost.duration_ns, kMost);
}

Cluster two_servers_of_three() {
  return two_level_cluster({.nodes = 2,
                            .devices_per_node = 3,
                            .intra_bytes_per_second = 4e9,
                            .inter_bytes_per_second = 1e9})
      .value();
}

// Devices 0, 1, 2 are on one server and 3, 4, 5 on the other. If the ring alternates between the servers, six
// hops cross the uplinks. If it goes server by server, two hops do.
TEST(RingOrder, GoesServerByServerHoweverTheGroupIsNumbered) {
  EXPECT_EQ(ring_order(two_servers_of_three(), std::vector{0, 3, 1, 4, 2, 5}),
            (std::vector{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(ring_order(two_servers_of_three(), std::vector{4, 0, 5, 1}), (std::vector{4, 5, 0, 1}));
}

TEST(RingOrder, StaysWhereNoLinkHasLessToCarryInAnother) {
  EXPECT_EQ(ring_order(two_servers_of_three(), std::vector{2, 1, 0, 5, 4, 3}),
            (std::vector{2, 1, 0, 5, 4, 3}));
  const auto alike = uniform_cluster({.devices = 5, .bytes_per_second = 1e9}).value();
  EXPECT_EQ(ring_order(alike, std::vector{3, 0, 4, 1}), (std::vector{3, 0, 4, 1}));
  const auto unlimited = uniform_cluster({.devices = 4}).value();
  EXPECT_EQ(ring_order(unlimited, std::vector{2, 0, 1}), (std::vector{2, 0, 1}));
}

TEST(RingOrder, OfOneOrNoDeviceIsThatDevice) {
  EXPECT_TRUE(ring_order(two_servers_of_three(), {}).empty());
  EXPECT_EQ(ring_order(two_servers_of_three(), std::vector{4}), std::vector{4});
}

//   0 -> 1 -> 2 -> 0 is fast, the other way round is slow.
TEST(RingOrder, TakesTheFastWayRound) {
  ClusterBuilder builder("one way fast");
  for (int i = 0; i < 3; ++i) builder.add_device({});
  for (std::int32_t i = 0; i < 3; ++i) {
    builder.add_link(i, (i + 1) % 3, 1e9, 1);
    builder.add_link((i + 1) % 3, i, 1e6, 1);
  }
  EXPECT_EQ(ring_order(builder.build().value(), std::vector{2, 1, 0}), (std::vector{2, 0, 1}));
}

}  // namespace
}  // namespace penstock
