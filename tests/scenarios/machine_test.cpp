// Tests clusters that are read from files of other tools: the matrix of `nvidia-smi topo -m`, NCCL's topology
// XML, and ASTRA-sim's networks. The files are in tests/scenarios/machines.

#include <cstdint>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/read/machine.hpp"
#include "scenarios/read/scenario.hpp"
#include "tests/scenarios/read_scenario.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

using testing::Contains;
using testing::HasSubstr;

/// Returns a scenario whose cluster is `cluster`, such as "../machines/matrix.txt".
Scenario on_machine(const std::string& cluster) {
  return read_scenario("cluster: " + cluster + "\nschedule: {name: gpipe, stages: 2, microbatches: 2}\n");
}

Cluster read_cluster(const std::string& cluster, std::int32_t ranks = 2) {
  auto built = build_cluster(on_machine(cluster).cluster, ranks);
  EXPECT_TRUE(built) << built.error();
  return built.value_or(Cluster{});
}

std::string machine_refusal(const std::string& cluster) { return refusal("cluster: " + cluster + "\n"); }

/// Returns the links of a route, such as "gpu0>nvswitch0 nvswitch0>gpu1 at 300 GB/s".
std::string route_text(const Cluster& cluster, std::int32_t from, std::int32_t to) {
  const Route route = cluster.route(from, to);
  std::string text;
  for (const LinkNumber link : route.links) text += cluster.link(link).name + " ";
  return text + fmt::format("at {:.4g} GB/s", route.bytes_per_second / 1e9);
}

// --- nvidia-smi topo -m ----------------------------------------------------------------------------------

// GPUs 0 to 2 have 12 links each, which lead to an NVSwitch. A GPU with 12 links to each of two others would
// have 24.
TEST(Machine, AMatrixOfMoreLinksThanAGpuHasIsAnNvswitch) {
  const Cluster cluster = read_cluster("../machines/matrix.txt");
  ASSERT_EQ(cluster.device_count(), 4);
  EXPECT_EQ(route_text(cluster, 0, 1), "gpu0>nvswitch0 nvswitch0>gpu1 at 300 GB/s");
  EXPECT_EQ(route_text(cluster, 2, 1), "gpu2>nvswitch0 nvswitch0>gpu1 at 300 GB/s");
  EXPECT_EQ(route_text(cluster, 3, 0), "gpu3>numa0 numa0>system system>pcie0 pcie0>gpu0 at 16 GB/s");
}

TEST(Machine, ANoteSaysWhichCardsGpusUseAndWhatIsAssumed) {
  EXPECT_THAT(
      on_machine("../machines/matrix.txt").notes,
      Contains(
          "cluster of ../machines/matrix.txt (nvidia-smi topo -m): 4 GPUs; 3 of 4 GPUs have 12 NVLinks of "
          "25 GB/s; network cards: gpu0 NIC0 (PXB), gpu1 NIC0 (PXB), gpu2 NIC1 (PXB), gpu3 NIC1 (NODE); "
          "assumed: PCIe 31.51 GB/s (pcie), between processors 16 GB/s (sockets)"));
}

// Four GPUs with three links each. GPUs 0 and 3 have none between them, but share a bridge.
TEST(Machine, AMatrixOfFewLinksIsAMeshOfThem) {
  const Cluster cluster = read_cluster("../machines/mesh.txt");
  EXPECT_EQ(route_text(cluster, 0, 1), "gpu0>gpu1 at 25 GB/s");
  EXPECT_EQ(route_text(cluster, 0, 2), "gpu0>gpu2 at 50 GB/s");
  EXPECT_EQ(route_text(cluster, 0, 3), "gpu0>pcie0 pcie0>gpu3 at 31.51 GB/s");
}

TEST(Machine, KeysReplaceWhatIsAssumed) {
  const Cluster cluster = read_cluster(
      "{machine: ../machines/matrix.txt, nvlink: 450 GB/s, pcie: 64 GB/s, sockets: 20 GB/s, memory: 80 GB}");
  EXPECT_EQ(route_text(cluster, 0, 1), "gpu0>nvswitch0 nvswitch0>gpu1 at 450 GB/s");
  EXPECT_EQ(route_text(cluster, 3, 0), "gpu3>numa0 numa0>system system>pcie0 pcie0>gpu0 at 20 GB/s");
  EXPECT_EQ(cluster.devices()[3].memory_bytes, 80'000'000'000);
}

// GPUs 2 and 3 share a card. A message between them does not pass it.
TEST(Machine, ServersAreJoinedByTheCardsOfTheirGpus) {
  const Cluster cluster = read_cluster("{machine: ../machines/matrix.txt, nodes: 2, network: 25 GB/s}");
  ASSERT_EQ(cluster.device_count(), 8);
  EXPECT_EQ(route_text(cluster, 1, 6),
            "node0/gpu1>node0/NIC0 node0/NIC0>network network>node1/NIC1 node1/NIC1>node1/gpu2 at 25 GB/s");
  EXPECT_EQ(cluster.route(1, 6).latency_ns, 5000);
  EXPECT_EQ(route_text(cluster, 6, 7),
            "node1/gpu2>node1/pcie1 node1/pcie1>node1/numa0 node1/numa0>node1/gpu3 at 31.51 GB/s");
}

// --- NCCL's topology XML ---------------------------------------------------------------------------------

TEST(Machine, AnXmlFileOfClassesHasItsGpusAndCards) {
  const Scenario scenario = on_machine("../machines/classes.xml");
  EXPECT_THAT(
      scenario.notes,
      Contains("cluster of ../machines/classes.xml (NCCL's topology): 3 GPUs; no NVLink is named; network "
               "cards: gpu0 nic0, gpu1 nic1, gpu2 nic0; assumed: between processors 16 GB/s "
               "(sockets)"));
  const Cluster cluster = read_cluster("../machines/classes.xml");
  EXPECT_EQ(route_text(cluster, 0, 1), "gpu0>pcie0 pcie0>gpu1 at 31.51 GB/s");
  EXPECT_EQ(route_text(cluster, 0, 2), "gpu0>pcie0 pcie0>cpu0 cpu0>cpu1 cpu1>pcie1 pcie1>gpu2 at 16 GB/s");
  // The second card has half as many lanes.
  const Cluster two = read_cluster("{machine: ../machines/classes.xml, nodes: 2}");
  EXPECT_EQ(two.route(0, 3).bytes_per_second, two.route(0, 1).bytes_per_second);
  EXPECT_DOUBLE_EQ(two.route(1, 4).bytes_per_second, two.route(0, 1).bytes_per_second / 2);
}

TEST(Machine, AnXmlFileWithoutNvlinksTakesAStatedOne) {
  const Cluster cluster = read_cluster("{machine: ../machines/classes.xml, nvlink: 300 GB/s}");
  EXPECT_EQ(route_text(cluster, 0, 2), "gpu0>nvswitch0 nvswitch0>gpu2 at 300 GB/s");
}

// A cloud's file has links that lead from a GPU to itself. NCCL finds no path over them.
TEST(Machine, LinksThatLeadBackToTheirGpuJoinNothing) {
  const auto gpu = [](int number, int target) {
    return fmt::format(
        "<pci busid=\"{0}\" class=\"0x030200\"><gpu dev=\"{0}\" sm=\"80\"><nvlink target=\"{1}\" "
        "count=\"12\"/>"
        "</gpu></pci>",
        number, target);
  };
  const auto nvlinks_of = [&](int first, int second) {
    const auto machine =
        machine_of_xml(fmt::format("<system><cpu>{}{}</cpu></system>", gpu(0, first), gpu(1, second)), {});
    return machine ? machine->nvlinks : machine.error();
  };
  EXPECT_EQ(
      nvlinks_of(0, 1),
      "the links of gpu0, gpu1 have their own GPU as target and join no GPUs (cluster.nvlink states the "
      "NVLink that they have)");
  EXPECT_THAT(nvlinks_of(1, 1), HasSubstr("12 NVLinks of 25 GB/s; the links of gpu1 have their own GPU"));
  EXPECT_THAT(nvlinks_of(1, 0), Not(HasSubstr("own GPU")));
}

// The dump lists GPU 1 before GPU 0, and has a link without a speed.
TEST(Machine, ADumpOfNcclHasItsNvlinksAndTheSpeedOfItsCards) {
  const Scenario scenario = on_machine("../machines/dump.xml");
  EXPECT_THAT(scenario.notes,
              Contains(HasSubstr("2 of 2 GPUs have 18 NVLinks of 25 GB/s; network cards: gpu0 "
                                 "eth0, gpu1 mlx5_0; assumed: PCIe 31.51 GB/s (pcie)")));
  EXPECT_EQ(route_text(read_cluster("../machines/dump.xml"), 0, 1),
            "gpu0>nvswitch0 nvswitch0>gpu1 at 450 GB/s");
  const Cluster two = read_cluster("{machine: ../machines/dump.xml, nodes: 2}");
  EXPECT_EQ(route_text(two, 1, 3),
            "node0/gpu1>node0/mlx5_0 node0/mlx5_0>network network>node1/mlx5_0 node1/mlx5_0>node1/gpu1 at 50 "
            "GB/s");
}

TEST(Machine, AnXmlFileWithoutClassesHasAGpuInEachEmptyElement) {
  const Cluster cluster = read_cluster("../machines/bare.xml");
  ASSERT_EQ(cluster.device_count(), 3);
  EXPECT_EQ(route_text(cluster, 0, 2), "gpu0>cpu0 cpu0>cpu1 cpu1>gpu2 at 6 GB/s");
}

// --- ASTRA-sim -------------------------------------------------------------------------------------------

// Two rings of three devices. Devices with the same place in both rings have a switch. A GB is 2^30 bytes.
TEST(Machine, ANetworkOfAstraSimHasTheShapeOfEachDimension) {
  const Cluster cluster = read_cluster("../machines/network.yml");
  ASSERT_EQ(cluster.device_count(), 6);
  EXPECT_EQ(route_text(cluster, 0, 2), "npu0>npu2 at 214.7 GB/s");
  EXPECT_EQ(cluster.route(0, 2).latency_ns, 500);
  EXPECT_EQ(route_text(cluster, 1, 4), "npu1>switch1 switch1>npu4 at 53.69 GB/s");
  EXPECT_EQ(cluster.route(1, 4).latency_ns, 3000);
}

// --- errors ----------------------------------------------------------------------------------------------

TEST(Machine, FaultsNameTheFileAndTheLine) {
  const MachineAssumptions assumed;
  EXPECT_EQ(machine_of_matrix("\tGPU0\tGPU1\nGPU0\t X \tNVX\nGPU1\tNV4\t X \n", assumed).error(),
            "2: GPU0 and GPU1: expected X, PIX, PXB, PHB, NODE, SYS or NV and a number, got \"NVX\"");
  EXPECT_EQ(machine_of_matrix("\tGPU0\tGPU1\nGPU0\t X \tNV4\n", assumed).error(),
            "2: expected a line of GPU1, got none");
  EXPECT_EQ(
      machine_of_matrix("\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tSYS\t X \n", assumed).error(),
      "3: expected one connection of GPU0 and GPU1 in both their lines, got NV4 in that of GPU0 (line 2) and "
      "SYS in that of GPU1 (line 3); correct one of the two cells");
  EXPECT_THAT(machine_of_xml("<system>\n<cpu>\n</system>", assumed).error(), HasSubstr(": not valid XML: "));
  EXPECT_EQ(machine_of_xml("<system><cpu/></system>", assumed).error(),
            "expected a GPU: an element <gpu>, or a <pci> of class 0x0302.. or 0x0300.., got none");
  EXPECT_THAT(
      machine_refusal("{machine: ../machines/bare.xml, nodes: 2}"),
      HasSubstr("cluster.nodes: expected 1, because ../machines/bare.xml has no network card for gpu0"));
  EXPECT_THAT(machine_refusal("{machine: ../machines/network.yml, nodes: 2}"),
              HasSubstr("cluster.nodes: is of servers"));
  EXPECT_THAT(machine_refusal("{machine: microbatch_times.csv}"),
              HasSubstr("expected NCCL's topology XML, the matrix"));
  EXPECT_THAT(machine_refusal("{machine: ../machines/none.xml}"), HasSubstr("none.xml"));
}

}  // namespace
}  // namespace penstock
