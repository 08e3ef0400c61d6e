// Tests that faulty clusters are refused with a message that names the fault. Then tests serialization_ns(),
// the time for which bytes occupy a link.

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "topology/cluster.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;

/// Returns a builder with two devices "a" and "b" and no links.
ClusterBuilder two_devices() {
  ClusterBuilder builder("pair");
  builder.add_device({.name = "a"});
  builder.add_device({.name = "b"});
  return builder;
}

/// Returns the error message for two devices if the link from a to b has this bandwidth and latency.
std::string error_of_link(double bytes_per_second, std::int64_t latency_ns) {
  auto builder = two_devices();
  builder.add_link(1, 0, 10, 0);
  builder.add_link(0, 1, bytes_per_second, latency_ns);
  const auto cluster = builder.build();
  return cluster ? "" : cluster.error();
}

std::string error_of_device(const Device& device) {
  ClusterBuilder builder("single");
  builder.add_device(device);
  const auto cluster = builder.build();
  return cluster ? "" : cluster.error();
}

TEST(ClusterBuilder, RefusesAClusterWithoutDevices) {
  ClusterBuilder builder("nothing");
  builder.add_switch("s");
  EXPECT_EQ(builder.build().error(), "cluster 'nothing' has no device; add at least one");
}

TEST(ClusterBuilder, TakesOrdinaryFigures) {
  EXPECT_EQ(error_of_link(1e-3, 0), "");
  EXPECT_EQ(error_of_link(kUnlimitedBandwidth, 1), "");
}

TEST(ClusterBuilder, RefusesABandwidthThatIsNotPositive) {
  EXPECT_EQ(error_of_link(0, 0), "link 1 ('a>b'): its bandwidth must be greater than 0 bytes/s, found 0");
  EXPECT_THAT(error_of_link(-25, 0), HasSubstr("found -25"));
  EXPECT_THAT(error_of_link(std::nan(""), 0), HasSubstr("found nan"));
}

TEST(ClusterBuilder, RefusesANegativeLatency) {
  EXPECT_EQ(error_of_link(10, -1), "link 1 ('a>b'): its latency must be 0 ns or more, found -1 ns");
}

TEST(ClusterBuilder, RefusesALinkFromANodeToItself) {
  auto builder = two_devices();
  builder.add_link(1, 1, 10, 0);
  EXPECT_EQ(builder.build().error(), "link 0 ('b>b'): its two ends must be different nodes");
}

TEST(ClusterBuilder, RefusesALinkToANodeThatIsNotThere) {
  for (const std::int32_t node : {2, -1}) {
    auto builder = two_devices();
    builder.add_link(0, node, 10, 0);
    EXPECT_EQ(builder.build().error(), "link 0 ('a>node " + std::to_string(node) +
                                           "'): both ends must be among the 2 nodes of the cluster");
  }
}

TEST(ClusterBuilder, RefusesDevicesThatCannotReachEachOther) {
  auto builder = two_devices();
  EXPECT_THAT(builder.build().error(), HasSubstr("no route leads from device 'b' to device 'a'"));
  builder.add_link(1, 0, 10, 0);
  EXPECT_THAT(builder.build().error(), HasSubstr("no route leads from device 'a' to device 'b'"));
  builder.add_link(0, 1, 10, 0);
  EXPECT_TRUE(builder.build().has_value());
}

TEST(ClusterBuilder, TakesASwitchThatNothingLeadsTo) {
  auto builder = two_devices();
  builder.add_switch("spare");
  builder.add_duplex_link(0, 1, 10, 0);
  EXPECT_TRUE(builder.build().has_value());
}

TEST(ClusterBuilder, RefusesADeviceWithoutMemory) {
  EXPECT_EQ(error_of_device({.name = "a"}), "");
  EXPECT_EQ(error_of_device({.name = "a", .memory_bytes = 1}), "");
  EXPECT_EQ(error_of_device({.name = "a", .memory_bytes = 0}),
            "device 'a': its memory must be greater than 0 bytes, found 0; leave it out for no limit");
}

TEST(ClusterBuilder, RefusesRatesThatAreNegativeOrNoNumbers) {
  constexpr auto infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(error_of_device({.name = "a", .flops_per_second = -1}),
            "device 'a': its flops_per_second must be 0 (unknown) or more, found -1");
  EXPECT_EQ(error_of_device({.name = "b", .memory_bytes_per_second = infinite}),
            "device 'b': its memory_bytes_per_second must be 0 (unknown) or more, found inf");
}

TEST(ClusterBuilder, RefusesMoreDevicesThanItsTableOfRoutesHolds) {
  ClusterBuilder builder("huge");
  for (int i = 0; i < 8193; ++i) builder.add_device({});
  EXPECT_EQ(builder.build().error(),
            "cluster 'huge' has 8193 devices and 8193 nodes in all; at most 67108864 devices x nodes are "
            "supported");
}

// serialization_ns() is exact if the quotient is a whole number. Otherwise it is rounded up to the next
// nanosecond.

constexpr auto kLargest = std::numeric_limits<std::int64_t>::max();
constexpr double kGiBPerSecond = 1024.0 * 1024.0 * 1024.0;

TEST(Serialization, IsExactWhereTheQuotientIsWhole) {
  EXPECT_EQ(serialization_ns(std::int64_t{16} << 20, 50 * kGiBPerSecond), 312'500);
  EXPECT_EQ(serialization_ns(1000, 1e9), 1000);
  EXPECT_EQ(serialization_ns(1, 1e9 / 8), 8);
}

TEST(Serialization, RoundsUpToAWholeNanosecond) {
  EXPECT_EQ(serialization_ns(1, 2e9), 1);
  EXPECT_EQ(serialization_ns(3, 2e9), 2);
  EXPECT_EQ(serialization_ns(1, 1e14), 1);
  EXPECT_EQ(serialization_ns(10, 3e9), 4);
}

TEST(Serialization, DoesNotCountAnErrorOfTheDivision) {
  // A third of 1 GB/s is not exact as a double. The 3 ns for each byte must not become 4 ns.
  EXPECT_EQ(serialization_ns(1, 1e9 / 3), 3);
  EXPECT_EQ(serialization_ns(7'000'000, 1e9 / 3), 21'000'000);
  for (std::int64_t parts = 1; parts <= 1000; ++parts) {
    EXPECT_EQ(serialization_ns(1'000'000, 1e9 / static_cast<double>(parts)), parts * 1'000'000) << parts;
  }
}

TEST(Serialization, CountsWhatIsMoreThanAnError) {
  EXPECT_EQ(serialization_ns(10'000'020, 1e16), 2);  // 2e-6 ns more than 1 ns
  EXPECT_EQ(serialization_ns(10'000'001, 1e16), 1);  // 1e-7 ns more than 1 ns
}

TEST(Serialization, OfNothingOrOnAnUnlimitedLinkIsZero) {
  EXPECT_EQ(serialization_ns(0, 1), 0);
  EXPECT_EQ(serialization_ns(0, kUnlimitedBandwidth), 0);
  EXPECT_EQ(serialization_ns(kLargest, kUnlimitedBandwidth), 0);
}

TEST(Serialization, SaturatesInsteadOfOverflowing) {
  EXPECT_EQ(serialization_ns(kLargest, 1), kLargest);
  EXPECT_EQ(serialization_ns(1, 1e-300), kLargest);
  EXPECT_EQ(serialization_ns(std::int64_t{1} << 62, 1e9), std::int64_t{1} << 62);
}

}  // namespace
}  // namespace penstock
