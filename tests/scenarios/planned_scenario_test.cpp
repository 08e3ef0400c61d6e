// Tests `partition: pipedream` and `block` in a scenario file, the scenario that is made from a plan, and the
// levels of bandwidth of a cluster.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/partition/pipedream_partition.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "tests/scenarios/read_scenario.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

/// Two layers: a (30 ms) and b (10 ms, with many weights). No bytes are sent between them.
const std::string kLightThenHeavy =
    "model: {layers: [{name: a, forward: 10 ms, backward: 20 ms}, "
    "{name: b, forward: 4 ms, backward: 6 ms, weights: 400 MB}]}\n";

std::vector<Ns> forward_times(const Experiment& experiment) {
  std::vector<Ns> times;
  for (const StageCost& stage : experiment.costs.stages) times.push_back(stage.forward_ns);
  return times;
}

std::vector<std::size_t> replicas_of(const Experiment& experiment) {
  std::vector<std::size_t> replicas;
  for (const StagePlacement& stage : experiment.program.placement.stages)
    replicas.push_back(stage.ranks.size());
  return replicas;
}

PlannedScenario planned(const Scenario& scenario, const PlanOptions& options = {}) {
  auto result = plan_scenario(scenario, options);
  EXPECT_TRUE(result) << result.error();
  return result.value_or(PlannedScenario{});
}

// --- turns ----------------------------------------------------------------------------------------------

PipelinePlan plan_of_replicas(const std::vector<std::int32_t>& replicas) {
  PipelinePlan plan;
  for (const std::int32_t count : replicas)
    plan.stages.emplace_back().devices.resize(static_cast<std::size_t>(count));
  return plan;
}

TEST(PlannedScenario, ReplicasAreAtTheSamePlaceAgainAfterTheirLeastCommonMultiple) {
  EXPECT_EQ(turn_of_all_replicas(plan_of_replicas({1, 1})), 1);
  EXPECT_EQ(turn_of_all_replicas(plan_of_replicas({6, 4, 3})), 12);
  EXPECT_EQ(turn_of_all_replicas(plan_of_replicas({43, 41, 37, 7})), 456'617);
  EXPECT_EQ(turn_of_all_replicas(plan_of_replicas({43, 41, 37, 31, 29, 23})), 1'348'781'387);
}

TEST(PlannedScenario, ATurnBeyond32BitsIsRefusedWithTheReplicas) {
  const auto turn =
      turn_of_all_replicas(plan_of_replicas({43, 41, 37, 31, 29, 23, 19, 17, 13, 11, 7, 5, 3, 2}));
  ASSERT_FALSE(turn);
  EXPECT_EQ(turn.error(),
            "stages of 43, 41, 37, 31, 29, 23, 19, 17, 13, 11, 7, 5, 3, 2 replicas share minibatches evenly "
            "only by "
            "multiples of more than 2147483647; take fewer devices, or --straight");
}

// --- in a file ------------------------------------------------------------------------------------------

// The plan has a on three devices (30 / 3 ms) and b on one (10 ms), so the many weights of b need no
// reduction.
TEST(PartitionPipedream, ChoosesStagesAndReplicasOfARoundRobinSchedule) {
  const Experiment experiment = prepared(kLightThenHeavy +
                                         "cluster: {preset: uniform, devices: 4, bandwidth: 8 GB/s}\n"
                                         "schedule: {name: 1f1b-rr, microbatches: 12}\n"
                                         "partition: pipedream\n");
  EXPECT_EQ(replicas_of(experiment), (std::vector<std::size_t>{3, 1}));
  EXPECT_EQ(forward_times(experiment), (std::vector<Ns>{10'000'000, 4'000'000}));
}

// The plan is a b | c d, because 1 kB crosses the cut after b, and 9 GB cross each other cut.
TEST(PartitionPipedream, CutsTheStagesOfOtherSchedulesStraight) {
  const Experiment experiment = prepared(
      "model: {layers: [{name: a, forward: 1 ms, backward: 2 ms, output: 9 GB}, "
      "{name: b, forward: 1 ms, backward: 2 ms, output: 1 kB}, "
      "{name: c, forward: 1 ms, backward: 2 ms, output: 9 GB}, {name: d, forward: 1 ms, backward: 2 ms}]}\n"
      "cluster: {preset: uniform, bandwidth: 1 GB/s}\n"
      "schedule: {name: gpipe, stages: 2, microbatches: 4}\n"
      "partition: pipedream\n");
  // The cut with the fewest bytes.
  EXPECT_EQ(forward_times(experiment), (std::vector<Ns>{2'000'000, 2'000'000}));
}

TEST(PartitionPipedream, CutsAStageForEachChunkOfARank) {
  const Experiment experiment = prepared(
      "model: {layers: [{name: a, forward: 1 ms, backward: 1 ms}, {name: b, forward: 2 ms, backward: "
      "2 ms}, {name: c, forward: 3 ms, backward: 3 ms}, {name: d, forward: 4 ms, backward: 4 ms}]}\n"
      "schedule: {name: interleaved, stages: 2, virtual_stages: 2, microbatches: 4}\n"
      "partition: {rule: pipedream, objective: sum}\n");
  EXPECT_EQ(forward_times(experiment), (std::vector<Ns>{1'000'000, 2'000'000, 3'000'000, 4'000'000}));
}

TEST(PartitionPipedream, TakesItsOptionsFromTheFile) {
  const Scenario scenario = read_scenario(kLightThenHeavy +
                                          "partition: {rule: pipedream, objective: sum, straight: true, "
                                          "cut_transfers: free, memory_limit: 2 GB}\n");
  EXPECT_EQ(scenario.partition.plan, (PlanOptions{.objective = PlanObjective::sum,
                                                  .form = PlanForm::straight,
                                                  .transfers = CutTransfers::free,
                                                  .memory_limit = 2'000'000'000}));
  EXPECT_EQ(read_scenario(kLightThenHeavy + "partition: {rule: pipedream, memory_limit: unlimited}\n")
                .partition.plan.memory_limit,
            std::numeric_limits<Bytes>::max());
}

TEST(PartitionPipedream, IsAppliedAgainWhenTheScenarioIsEdited) {
  Scenario scenario = read_scenario(kLightThenHeavy +
                                    "cluster: {preset: uniform, devices: 4, bandwidth: 8 GB/s}\n"
                                    "schedule: {name: 1f1b, stages: 2, microbatches: 4}\n"
                                    "partition: pipedream\n");
  EXPECT_EQ(prepared(scenario).program.stage_count(), 2);
  scenario.shape.stages = 1;
  EXPECT_EQ(prepared(scenario).program.stage_count(), 1);
}

TEST(PartitionBlock, CutsAsTorchgpipeDoes) {
  std::string text = "model:\n  layers:\n";
  for (int i = 1; i <= 6; ++i)
    text +=
        "    - {name: l" + std::to_string(i) + ", forward: " + std::to_string(i) + " ms, backward: 0 ms}\n";
  text += "schedule: {name: gpipe, stages: 2, microbatches: 4}\npartition: block\n";
  EXPECT_EQ(forward_times(prepared(text)), (std::vector<Ns>{10'000'000, 11'000'000}));
}

// --- as a scenario --------------------------------------------------------------------------------------

TEST(PlannedScenario, RunsThePlanOnItsCluster) {
  const PlannedScenario result =
      planned(read_scenario(kLightThenHeavy + "cluster: {preset: uniform, devices: 4, bandwidth: 8 GB/s}\n"));
  EXPECT_DOUBLE_EQ(result.plan.period_ns, 10'000'000);
  EXPECT_EQ(result.scenario.shape.replicas, (std::vector{3, 1}));
  EXPECT_EQ(*result.scenario.batch.microbatches % 3, 0);
  EXPECT_EQ(replicas_of(prepared(result.scenario)), (std::vector<std::size_t>{3, 1}));
}

TEST(PlannedScenario, ReordersLayersThatTheirFileInterleaves) {
  // There are two chains, a - c and b - d. The file lists a b c d, and the plan has a c | b d.
  const PlannedScenario result =
      planned(read_scenario("model: {layers: [{name: a, forward: 1 ms, backward: 2 ms, output: 1 GB}, "
                            "{name: b, forward: 1 ms, backward: 2 ms, output: 1 GB, inputs: []}, "
                            "{name: c, forward: 1 ms, backward: 2 ms, inputs: [a]}, "
                            "{name: d, forward: 1 ms, backward: 2 ms, inputs: [b]}]}\n"
                            "cluster: {preset: uniform, devices: 2, bandwidth: 1 GB/s}\n"),
              {.form = PlanForm::straight});
  const auto& graph = std::get<LayerGraph>(result.scenario.model);
  ASSERT_EQ(graph.layers.size(), 4);
  EXPECT_EQ(graph.layers[1].inputs, (std::vector{0}));
  EXPECT_TRUE(graph.layers[2].inputs.empty());
  EXPECT_EQ(graph.layers[3].inputs, (std::vector{2}));
  EXPECT_EQ(result.scenario.partition.cuts, (std::vector{2}));
  EXPECT_DOUBLE_EQ(result.plan.period_ns, 6'000'000);
}

// Each server of four devices runs 3 + 1, so that minibatches do not leave a server. Ranks 0 to 5 are the
// replicas of the first stage, alternately on the two servers. Ranks 6 and 7 are the replicas of the second
// stage.
//
//   node0  0 2 4 | 6          node1  1 3 5 | 7
TEST(PlannedScenario, OrdersTheDevicesOfTwoLevelsByTheRanks) {
  const PlannedScenario result =
      planned(read_scenario(kLightThenHeavy +
                            "cluster: {preset: two-level, nodes: 2, devices_per_node: 4, intra_bandwidth: 8 "
                            "GB/s, inter_bandwidth: unlimited}\n"));
  EXPECT_EQ(result.scenario.shape.replicas, (std::vector{6, 2}));
  const auto& cluster = std::get<TwoLevelCluster>(result.scenario.cluster.shape);
  EXPECT_EQ(cluster.device_order, (std::vector{0, 4, 1, 5, 2, 6, 3, 7}));
  const Experiment experiment = prepared(result.scenario);
  EXPECT_EQ(experiment.cluster.devices()[1].name, "node1/gpu0");
  for (std::int32_t minibatch = 0; minibatch < 12; ++minibatch) {
    const auto node = [&](std::int32_t stage) {
      const std::int32_t rank = experiment.program.placement.rank_of(stage, minibatch);
      return experiment.cluster.devices()[static_cast<std::size_t>(rank)].name.substr(0, 5);
    };
    EXPECT_EQ(node(0), node(1)) << "minibatch " << minibatch;
  }
}

TEST(PlannedScenario, ScalesTheProfileToTheMinibatch) {
  const std::string model =
      "model: {layers: [{name: a, forward: 10 ms, backward: 20 ms}], batch: 10}\n"
      "cluster: {preset: uniform, devices: 1}\n";
  EXPECT_DOUBLE_EQ(planned(read_scenario(model)).plan.period_ns, 3'000'000);  // one sample
  EXPECT_DOUBLE_EQ(planned(read_scenario(model + "training: {micro_batch_size: 20}\n")).plan.period_ns,
                   60'000'000);
}

TEST(PlannedScenario, KeepsWithinTheSmallestDevice) {
  const Scenario scenario = read_scenario(kLightThenHeavy +
                                          "cluster: {devices: [{name: x, memory: 60 MB}, {name: y, memory: 1 "
                                          "GB}], links: [{between: [x, y]}]}\n");
  const auto refused = plan_scenario(scenario, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().find("the layer b is larger than a device"), 0) << refused.error();
  EXPECT_TRUE(plan_scenario(scenario, {.memory_limit = std::numeric_limits<Bytes>::max()}));
}

TEST(PlannedScenario, KeepsOutOfWhatIsReserved) {
  const std::string cluster = "cluster: {preset: uniform, devices: 2, memory: 2 GB, reserve: ";
  EXPECT_EQ(planned(read_scenario(kLightThenHeavy + cluster + "500 MB}\n")).memory_limit, 1'500'000'000);
  EXPECT_FALSE(plan_scenario(read_scenario(kLightThenHeavy + cluster + "1.5 GB}\n"), {}));
  EXPECT_EQ(planned(read_scenario(kLightThenHeavy + cluster + "1.5 GB}\n"), {.memory_limit = 2'000'000'000})
                .memory_limit,
            2'000'000'000)
      << "a stated limit is what may be used";
}

TEST(PlannedScenario, NeedsLayersAndDevices) {
  EXPECT_EQ(plan_scenario(read_scenario("model: {stages: {forward: 1 ms, backward: 2 ms}}\n"
                                        "cluster: {preset: uniform, devices: 2}\n"),
                          {})
                .error(),
            "a plan needs a model of layers: expected model.layers or model.profile, got one stage by stage");
  EXPECT_THAT(
      plan_scenario(
          read_scenario("model: {huggingface: " + source_path("tests/scenarios/configs/llama-3.1-70b.json") +
                        ", sequence: 4096}\n"
                        "cluster: {groups: [{device: h100-sxm, nodes: 2}, {device: a100-sxm, nodes: 4}]}\n"),
          {})
          .error(),
      testing::HasSubstr(
          "got a model on named devices; `penstock tune` chooses its stages, copies and layers "
          "of each stage, also for cluster.groups"));
  EXPECT_THAT(
      plan_scenario(
          read_scenario("model: {transformer: {layers: 4, hidden: 1024, heads: 8, sequence: 512, vocabulary: "
                        "1000, efficiency: 0.45}}\n"
                        "cluster: {devices: [{name: a, flops: 990 TFLOP/s}, {name: b, flops: 312 TFLOP/s}],\n"
                        "  links: [{between: [a, b], bandwidth: 25 GB/s, latency: 5 us, duplex: true}]}\n"
                        "training: {micro_batch_size: 1}\n"),
          {})
          .error(),
      testing::HasSubstr("or state cluster.groups and use `penstock tune`"));
  EXPECT_EQ(plan_scenario(read_scenario(kLightThenHeavy), {}).error(),
            "cluster.devices is missing: expected the number of devices to plan for, got nothing");
}

// --- as a file ------------------------------------------------------------------------------------------

/// Checks that the file of a planned scenario can be read again as the same scenario.
void expect_reads_back(const Scenario& scenario) {
  const auto text = scenario_to_yaml(scenario, "two\nlines");
  ASSERT_TRUE(text) << text.error();
  EXPECT_EQ(text->find("# two\n# lines\n"), 0);
  const Scenario read = read_scenario(*text);
  EXPECT_EQ(read.model, scenario.model);
  EXPECT_EQ(read.partition.cuts, scenario.partition.cuts);
  EXPECT_EQ(read.shape.replicas, scenario.shape.replicas);
  EXPECT_EQ(read.batch, scenario.batch);
  EXPECT_EQ(read.optimizer, scenario.optimizer);
  const Experiment before = prepared(scenario);
  const Experiment after = prepared(read);
  EXPECT_EQ(after.program, before.program);
  EXPECT_EQ(after.costs, before.costs);
  EXPECT_EQ(after.cluster, before.cluster);
  EXPECT_EQ(after.channels, before.channels);
}

TEST(ScenarioText, ReadsBackAsTheSameExperiment) {
  const std::string odd_model =
      "model: {batch: 3, overhead: 7 us, layers: [{name: it's, forward: 1.25 ms, backward: 20 ms, output: 5 "
      "MB}, {name: \"a\\n\\tb\\e[31m\\\"\\r\", forward: 1 ms, backward: 2 ms}, {name: 'null', forward: 4 ms, "
      "backward: 6 ms, weights: 400 MB, inputs: []}, {name: c-3, forward: "
      "1 ns, backward: 3 ms, weights: 7 B, inputs: [it's, 'null', \"a\\n\\tb\\e[31m\\\"\\r\"]}]}\n"
      "training: {micro_batch_size: 6, optimizer: adam}\n"
      "schedule: {name: 1f1b-rr, channel: pair, eager: 2 kB, blocking: true}\n";
  for (const std::string cluster :
       {"cluster: {preset: uniform, devices: 4, bandwidth: 8.5 GB/s, latency: 3 us, memory: 64 GiB, reserve: "
        "3 GiB}\n",
        "cluster: {preset: uniform, devices: 3, flops: 15.7 TFLOP/s}\n", "cluster: pipedream-a\n",
        "cluster: {preset: two-level, nodes: 2, devices_per_node: 3, intra_bandwidth: 1.1 GB/s, "
        "inter_bandwidth: 10 Gb/s, inter_latency: 5 us, memory: 16 GiB, reserve: 1 GB}\n"}) {
    SCOPED_TRACE(cluster);
    expect_reads_back(
        planned(read_scenario(odd_model + cluster), {.memory_limit = std::numeric_limits<Bytes>::max()})
            .scenario);
  }
}

TEST(ScenarioText, AControlCharacterEndsNoComment) {
  EXPECT_EQ(comment_to_yaml("a\rmodel: 1\x1b\n\nb"), "# a?model: 1?\n#\n# b\n");
}

TEST(ScenarioText, NeedsLayersWithCuts) {
  EXPECT_FALSE(scenario_to_yaml(read_scenario("schedule: {name: gpipe, stages: 2, microbatches: 4}"), ""));
}

TEST(ScenarioText, AClusterGivenLinkByLinkReadsBack) {
  for (const char* cluster :
       {"{devices: [x, y], links: [{between: [x, y], bandwidth: 1 GB/s}]}",
        "{name: mine, reserve: 1 GB, price: 2, devices: [{name: x, memory: 8 GB, flops: 1 TFLOP/s}, {name: "
        "y, "
        "memory: 4 GB}], switches: [s], links: [{between: [x, s], latency: 1 us}, {between: [s, y], latency: "
        "1 us}, {between: [y, x], bandwidth: 2 GB/s, duplex: false}, {between: [x, y], bandwidth: 3 GB/s, "
        "duplex: false}]}"}) {
    expect_reads_back(planned(read_scenario(kLightThenHeavy + "cluster: " + cluster + "\n")).scenario);
  }
  const Scenario unlike = read_scenario(
      kLightThenHeavy +
      "cluster: {devices: [x, y], switches: [a>b], links: [{between: [x, a>b]}, {between: [a>b, "
      "y]}]}\n");
  EXPECT_THAT(scenario_to_yaml(planned(unlike).scenario, "").error(),
              testing::HasSubstr("a cluster with '>' or '#' in the names of its switches cannot be written"));
}

TEST(BandwidthLevels, AreThoseOfTheCluster) {
  using Levels = std::vector<BandwidthLevel>;
  const auto levels = [](const std::string& cluster) {
    return levels_of(read_scenario("cluster: " + cluster).cluster).value_or(ClusterLevels{}).levels;
  };
  EXPECT_EQ(levels("{preset: two-level, nodes: 2, devices_per_node: 8, intra_bandwidth: 4 GB/s, "
                   "inter_bandwidth: 1 GB/s}"),
            (Levels{{8, 4e9}, {2, 1e9}}));
  EXPECT_EQ(levels("{preset: two-level, nodes: 1, devices_per_node: 8, intra_bandwidth: 4 GB/s}"),
            (Levels{{8, 4e9}}));
  EXPECT_EQ(levels("{preset: two-level, nodes: 3, devices_per_node: 1, inter_bandwidth: 1 GB/s}"),
            (Levels{{3, 1e9}}));
  EXPECT_EQ(levels("{devices: [a, b, c], links: [{between: [a, b], bandwidth: 3 GB/s}, {between: [b, c], "
                   "bandwidth: 2 GB/s}]}"),
            (Levels{{3, 2e9}}));
}

// Tests the levels of bandwidth of clusters that state single links, and clusters with renumbered devices.

using Levels = std::vector<BandwidthLevel>;

Cluster cluster_of(const std::string& text) {
  return std::get<Cluster>(read_scenario("cluster: " + text + "\n").cluster.shape);
}

//   a0 --+               +-- b0       8 GB/s to a server's switch, 1 GB/s between switches
//        a ---- top ---- b
//   a1 --+               +-- b1
/// Two servers with two devices each, connected by a switch. The file lists devices of the two servers
/// alternately.
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
  // A chain of direct links. The routes w - x and x - y are fast, but w - y is slow, because its shortest
  // route is its own slow link.
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

// The names of switches are derived from the names of links. Names of parallel links have numbers: "x>s",
// "x>s#2".
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
  // A layer with few weights, and then a layer with many weights. The second one should not be replicated
  // over the network.
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
  // Ranks 0, 1, ... run on the devices that the plan names a0, a1, b0, b1.
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
