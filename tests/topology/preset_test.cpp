// Tests the shapes with parameters, and the figures of the ready-made clusters and devices.

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/topology/way.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

Cluster preset_cluster(std::string_view name) { return two_level_cluster(find_preset(name)->shape).value(); }

std::string error_of(const UniformCluster& shape) {
  const auto cluster = uniform_cluster(shape);
  return cluster ? "" : cluster.error();
}

std::string error_of(const TwoLevelCluster& shape) {
  const auto cluster = two_level_cluster(shape);
  return cluster ? "" : cluster.error();
}

TEST(UniformCluster, HasADedicatedLinkForEveryOrderedPair) {
  const auto cluster = uniform_cluster({.devices = 5, .bytes_per_second = 50e9, .latency_ns = 4000}).value();
  ASSERT_THAT(cluster.links(), SizeIs(20));
  for (std::int32_t number = 0; number < 20; ++number) {
    const Link link = cluster.link(number);
    const Route direct{.links = {number}, .bytes_per_second = 50e9, .latency_ns = 4000};
    EXPECT_EQ(cluster.route(link.from, link.to), direct) << link.name;
  }
}

TEST(UniformCluster, GivesEveryDeviceTheSameFigures) {
  const auto cluster =
      uniform_cluster({.devices = 3, .memory_bytes = 80 * kGiB, .flops_per_second = 1e12}).value();
  EXPECT_EQ(cluster.name(), "uniform");
  EXPECT_EQ(cluster.devices()[0], (Device{"gpu0", 80 * kGiB, 0, 1e12, 0}));
  EXPECT_EQ(cluster.devices()[2], (Device{"gpu2", 80 * kGiB, 0, 1e12, 0}));
}

TEST(UniformCluster, IsOneFreeUnlimitedDeviceByDefault) {
  const auto cluster = uniform_cluster({}).value();
  EXPECT_EQ(cluster.device_count(), 1);
  EXPECT_FALSE(cluster.devices()[0].memory_bytes.has_value());
  EXPECT_THAT(cluster.links(), IsEmpty());
}

TEST(UniformCluster, HasDirectRoutesWhereLinksAreFree) {
  const auto cluster = uniform_cluster({.devices = 64}).value();
  EXPECT_THAT(way(cluster, 63, 0), ElementsAre("gpu63>gpu0"));
}

TEST(UniformCluster, NamesTheFieldThatIsOutOfRange) {
  EXPECT_EQ(error_of(UniformCluster{.devices = 0}), "uniform cluster: devices must be at least 1, found 0");
  EXPECT_EQ(error_of(UniformCluster{.devices = -3}), "uniform cluster: devices must be at least 1, found -3");
  EXPECT_EQ(error_of(UniformCluster{.bytes_per_second = 0}),
            "uniform cluster: bytes_per_second must be greater than 0, found 0");
  EXPECT_EQ(error_of(UniformCluster{.bytes_per_second = std::nan("")}),
            "uniform cluster: bytes_per_second must be greater than 0, found nan");
  EXPECT_EQ(error_of(UniformCluster{.latency_ns = -1}),
            "uniform cluster: latency_ns must be 0 or more, found -1");
  EXPECT_EQ(error_of(UniformCluster{.memory_bytes = 0}),
            "uniform cluster: memory_bytes must be greater than 0, found 0; leave it out for no limit");
  EXPECT_EQ(error_of(UniformCluster{.flops_per_second = -1}),
            "uniform cluster: flops_per_second must be 0 (unknown) or more, found -1");
}

TEST(UniformCluster, RefusesMoreDevicesThanAnyMachineHas) {
  EXPECT_EQ(error_of(UniformCluster{.devices = 16'777'217}),
            "uniform cluster: devices must be at most 16777216 in a uniform cluster, found 16777217");
}

TEST(UniformCluster, IsWhatABuilderMakesLinkByLink) {
  const auto uniform = uniform_cluster({.devices = 5, .bytes_per_second = 3e9, .latency_ns = 7}).value();
  ClusterBuilder builder("uniform");
  for (std::int32_t i = 0; i < 5; ++i) builder.add_device({"gpu" + std::to_string(i)});
  for (std::int32_t from = 0; from < 5; ++from) {
    for (std::int32_t to = 0; to < 5; ++to) {
      if (from != to) builder.add_link(from, to, 3e9, 7);
    }
  }
  const Cluster built = builder.build().value();
  EXPECT_EQ(uniform, built);
  EXPECT_EQ(uniform.links(), built.links());
  EXPECT_EQ(uniform.most_bytes_per_second(), built.most_bytes_per_second());
  for (std::int32_t from = 0; from < 5; ++from) {
    for (std::int32_t to = 0; to < 5; ++to) EXPECT_EQ(uniform.route(from, to), built.route(from, to));
  }
}

TEST(UniformCluster, ListsNoLinkOfManyDevices) {
  const auto cluster = uniform_cluster({.devices = 100'000, .latency_ns = 5}).value();
  const Route route = cluster.route(99'999, 17);
  ASSERT_THAT(route.links, SizeIs(1));
  EXPECT_EQ(cluster.link(route.links[0]).name, "gpu99999>gpu17");
  EXPECT_EQ(route.latency_ns, 5);
}

TEST(TwoLevelCluster, CrossesTheUplinksBetweenServers) {
  const auto cluster = two_level_cluster({.nodes = 2, .devices_per_node = 2}).value();
  EXPECT_THAT(way(cluster, 0, 1), ElementsAre("node0/gpu0>node0", "node0>node0/gpu1"));
  EXPECT_THAT(way(cluster, 1, 2),
              ElementsAre("node0/gpu1>node0", "node0>central", "central>node1", "node1>node1/gpu0"));
}

TEST(TwoLevelCluster, SplitsEvenAnOddLatencyExactly) {
  const auto cluster = two_level_cluster({.nodes = 3,
                                          .devices_per_node = 2,
                                          .intra_bytes_per_second = 100,
                                          .intra_latency_ns = 5,
                                          .inter_bytes_per_second = 7,
                                          .inter_latency_ns = 11})
                           .value();
  EXPECT_EQ(cluster.route(2, 3).latency_ns, 5);
  EXPECT_EQ(cluster.route(2, 3).bytes_per_second, 100);
  EXPECT_EQ(cluster.route(0, 5).latency_ns, 16);
  EXPECT_EQ(cluster.route(0, 5).bytes_per_second, 7);
}

TEST(TwoLevelCluster, OfOneServerHasNoUplink) {
  const auto cluster =
      two_level_cluster({.nodes = 1, .devices_per_node = 4, .inter_bytes_per_second = 1}).value();
  EXPECT_THAT(cluster.links(), SizeIs(8));
  EXPECT_EQ(cluster.route(0, 3).bytes_per_second, kUnlimitedBandwidth);
}

TEST(TwoLevelCluster, OfSingleDevicesKeepsTheLinkInsideTheServer) {
  const auto cluster =
      two_level_cluster({.nodes = 2, .intra_bytes_per_second = 3, .inter_bytes_per_second = 5}).value();
  EXPECT_THAT(cluster.route(0, 1).links, SizeIs(4));
  EXPECT_EQ(cluster.route(0, 1).bytes_per_second, 3);
}

TEST(TwoLevelCluster, OfOneDeviceHasOneFreeRoute) {
  EXPECT_EQ(two_level_cluster({}).value().route(0, 0), Route{});
}

TEST(TwoLevelCluster, NumbersItsDevicesInAStatedOrder) {
  const TwoLevelCluster shape{.nodes = 2,
                              .devices_per_node = 2,
                              .intra_bytes_per_second = 9e9,
                              .inter_bytes_per_second = 1e9,
                              .device_order = {0, 2, 1, 3}};
  const auto cluster = two_level_cluster(shape).value();
  EXPECT_EQ(cluster.devices()[1].name, "node1/gpu0");
  EXPECT_EQ(cluster.route(0, 1).bytes_per_second, 1e9);
  EXPECT_EQ(cluster.route(0, 2).bytes_per_second, 9e9);
  for (const auto& order : {std::vector<std::int32_t>{0, 1, 2}, {0, 1, 2, 4}, {0, 1, 1, 3}, {-1, 0, 1, 2}}) {
    auto wrong = shape;
    wrong.device_order = order;
    EXPECT_FALSE(two_level_cluster(wrong)) << testing::PrintToString(order);
  }
}

TEST(TwoLevelCluster, NamesTheFieldThatIsOutOfRange) {
  const std::string prefix = "two-level cluster: ";
  EXPECT_EQ(error_of(TwoLevelCluster{.nodes = 0}), prefix + "nodes must be at least 1, found 0");
  EXPECT_EQ(error_of(TwoLevelCluster{.devices_per_node = -1}),
            prefix + "devices_per_node must be at least 1, found -1");
  EXPECT_EQ(error_of(TwoLevelCluster{.intra_bytes_per_second = -2}),
            prefix + "intra_bytes_per_second must be greater than 0, found -2");
  EXPECT_EQ(error_of(TwoLevelCluster{.intra_latency_ns = -2}),
            prefix + "intra_latency_ns must be 0 or more, found -2");
  EXPECT_EQ(error_of(TwoLevelCluster{.inter_bytes_per_second = 0}),
            prefix + "inter_bytes_per_second must be greater than 0, found 0");
  EXPECT_EQ(error_of(TwoLevelCluster{.inter_latency_ns = -9}),
            prefix + "inter_latency_ns must be 0 or more, found -9");
  EXPECT_EQ(error_of(TwoLevelCluster{.memory_bytes = -1}),
            prefix + "memory_bytes must be greater than 0, found -1; leave it out for no limit");
  EXPECT_EQ(error_of(TwoLevelCluster{.flops_per_second = std::nan("")}),
            prefix + "flops_per_second must be 0 (unknown) or more, found nan");
}

TEST(TwoLevelCluster, RefusesMoreDevicesThanItsTableOfRoutesHolds) {
  EXPECT_EQ(
      error_of(TwoLevelCluster{.nodes = 1 << 20}),
      "two-level cluster: nodes x devices_per_node must leave a table of routes of at most 67108864 entries "
      "(about 7600 devices), found 1048576 x 1");
  EXPECT_NE(error_of(TwoLevelCluster{.nodes = 2147483647, .devices_per_node = 2147483647}), "");
}

TEST(TwoLevelCluster, OfAThousandDevicesHasARouteForEveryPair) {
  const auto cluster = two_level_cluster({.nodes = 128, .devices_per_node = 8}).value();
  ASSERT_EQ(cluster.device_count(), 1024);
  EXPECT_THAT(way(cluster, 1023, 0),
              ElementsAre("node127/gpu7>node127", "node127>central", "central>node0", "node0>node0/gpu0"));
}

// Source: PipeDream (SOSP'19), section 5.1. Section 2 states 10 to 15 GB/s for PCIe.
TEST(Preset, PipedreamAIsFourServersOfFourV100OnPcie) {
  const auto cluster = preset_cluster("pipedream-a");
  ASSERT_EQ(cluster.device_count(), 16);
  EXPECT_EQ(cluster.devices()[0].memory_bytes, 16 * kGiB);
  EXPECT_GE(cluster.route(0, 3).bytes_per_second, 10e9);
  EXPECT_LE(cluster.route(0, 3).bytes_per_second, 15e9);
  EXPECT_EQ(cluster.route(3, 4).bytes_per_second, 1.25e9);
}

TEST(Preset, PipedreamBIsTwoServersOfEightV100OnNvlink) {
  const auto cluster = preset_cluster("pipedream-b");
  ASSERT_EQ(cluster.device_count(), 16);
  EXPECT_EQ(cluster.devices()[0].memory_bytes, 16 * kGiB);
  EXPECT_EQ(cluster.route(0, 7).bytes_per_second, 30e9);
  EXPECT_EQ(cluster.route(7, 8).bytes_per_second, 3.125e9);
}

TEST(Preset, PipedreamCIsFourServersOfOneTitanX) {
  const auto cluster = preset_cluster("pipedream-c");
  ASSERT_EQ(cluster.device_count(), 4);
  EXPECT_EQ(cluster.devices()[0].memory_bytes, 12 * kGiB);
  EXPECT_EQ(cluster.route(0, 1).bytes_per_second, 5e9);
}

TEST(Preset, DgxH100IsOneServerOfEight) {
  const auto cluster = preset_cluster("dgx-h100");
  ASSERT_EQ(cluster.device_count(), 8);
  EXPECT_EQ(cluster.devices()[0].memory_bytes, 80 * kGiB);
  EXPECT_EQ(cluster.devices()[0].flops_per_second, 989e12);
  EXPECT_EQ(cluster.route(0, 7).bytes_per_second, 450e9);
}

TEST(Preset, TakesAnotherNumberOfServers) {
  auto shape = find_preset("dgx-h100")->shape;
  shape.nodes = 4;
  const auto cluster = two_level_cluster(shape).value();
  EXPECT_EQ(cluster.device_count(), 32);
  EXPECT_EQ(cluster.route(0, 31).bytes_per_second, 8 * 50e9);
}

TEST(Preset, EachCanBeBuiltAndIsFoundByItsName) {
  EXPECT_THAT(presets(), SizeIs(4));
  for (const auto& preset : presets()) {
    EXPECT_EQ(find_preset(preset.name), &preset);
    EXPECT_EQ(preset_cluster(preset.name).name(), preset.name);
    EXPECT_NE(preset.summary, "");
  }
}

TEST(Preset, IsFoundWhateverItsSpelling) {
  const auto* const a = find_preset("pipedream-a");
  for (const auto* const name :
       {"PipeDream_A", "pipedreama", "cluster-pipedream-a", "Cluster-A", "cluster_a"}) {
    EXPECT_EQ(find_preset(name), a) << name;
  }
  EXPECT_EQ(find_preset("DGX_H100"), find_preset("dgx-h100"));
}

TEST(Preset, IsNullForAnUnknownName) {
  for (const auto* const name : {"", "a", "cluster-", "cluster-z", "dgx", "uniform"}) {
    EXPECT_EQ(find_preset(name), nullptr) << name;
  }
}

TEST(DeviceTypes, AreFoundHoweverTheyAreSpelt) {
  for (const char* name : {"h100-sxm", "H100-SXM", "h100_sxm", "h100"}) {
    const DeviceType* type = find_device_type(name);
    ASSERT_NE(type, nullptr) << name;
    EXPECT_EQ(type->name, "h100-sxm");
  }
  EXPECT_EQ(find_device_type("gb300")->nvlink_devices, 72);
  EXPECT_EQ(find_device_type("h900"), nullptr);
  EXPECT_EQ(find_device_type(""), nullptr);
}

TEST(DeviceTypes, LaterOnesAreNoWorse) {
  double before = 0;
  for (const char* name : {"a100-sxm", "h100-sxm", "b200-sxm", "gb200"}) {
    EXPECT_GT(find_device_type(name)->bf16_flops_per_second, before) << name;
    before = find_device_type(name)->bf16_flops_per_second;
  }
}

// The figures of data sheets: TFLOP/s in bf16, GiB, GB/s of memory, and GB/s of links in one direction.
TEST(DeviceTypes, WithoutTablesOfTheirOwnHaveTheFiguresOfTheirDataSheets) {
  struct Row {
    const char* name;
    double teraflops;
    std::int64_t gibibytes;
    double memory;
    double links;
  };
  for (const Row& row :
       {Row{"a800", 312, 80, 2039, 200}, Row{"h800", 989.4, 80, 3350, 200}, Row{"h20", 148, 96, 4000, 450},
        Row{"l40s", 362.05, 48, 864, 32}, Row{"MI300X", 1307.4, 192, 5300, 448},
        Row{"mi325x", 1307.4, 256, 6000, 448}, Row{"TPU-v5p", 459, 95, 2765, 600}}) {
    SCOPED_TRACE(row.name);
    const DeviceType* type = find_device_type(row.name);
    ASSERT_NE(type, nullptr);
    EXPECT_FALSE(type->has_own_kernels);
    EXPECT_DOUBLE_EQ(type->bf16_flops_per_second, row.teraflops * 1e12);
    EXPECT_EQ(type->memory_bytes, row.gibibytes << 30);
    EXPECT_DOUBLE_EQ(type->memory_bytes_per_second, row.memory * 1e9);
    EXPECT_DOUBLE_EQ(type->nvlink_bytes_per_second, row.links * 1e9);
  }
}

TEST(DeviceTypes, NarrowValuesAreFaster) {
  for (const DeviceType& type : device_types()) {
    SCOPED_TRACE(type.name);
    if (type.fp8_flops_per_second > 0) {
      EXPECT_GT(type.fp8_flops_per_second, type.bf16_flops_per_second);
    }
    if (type.fp4_flops_per_second > 0) {
      EXPECT_GT(type.fp4_flops_per_second, type.fp8_flops_per_second);
    }
    EXPECT_GT(type.memory_bytes, std::int64_t{1} << 35);
  }
}

// The usable memory is the total that nvidia-smi prints, minus 3 GiB that a run needs in addition to its
// allocator.
TEST(DeviceTypes, LeaveWhatTheDriverGivesLessThreeGibibytes) {
  const auto usable_mebibytes = [](const char* name) {
    return *find_device_type(name)->usable_memory() >> 20;
  };
  EXPECT_EQ(usable_mebibytes("a100"), 81920 - 3072);
  EXPECT_EQ(usable_mebibytes("h100"), 81559 - 3072);
  EXPECT_EQ(usable_mebibytes("h200"), 143771 - 3072);
  EXPECT_EQ(usable_mebibytes("b200"), 183359 - 3072);
  for (const DeviceType& type : device_types()) {
    SCOPED_TRACE(type.name);
    EXPECT_GE(type.reserved_bytes, kReservedBesideAllocator);
    EXPECT_LT(type.reserved_bytes, kReservedBesideAllocator + (std::int64_t{1} << 30));
  }
}

TEST(DeviceTypes, HaveNoLimitWithoutAMemory) {
  DeviceType device = *find_device_type("h100");
  device.memory_bytes = 0;
  EXPECT_EQ(device.usable_memory(), std::nullopt);
  device.memory_bytes = 1;
  EXPECT_EQ(device.usable_memory(), 0) << "and never a negative one";
}

}  // namespace
}  // namespace penstock
