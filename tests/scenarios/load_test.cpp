// Tests every part of the schema: YAML text, and the value that is read from it. load_files_test.cpp tests
// files and --set.

#include "scenarios/read/load.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "tests/scenarios/read_scenario.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

using List = std::vector<std::int32_t>;

template <typename Form>
Form model_form(const std::string& text) {
  return std::get<Form>(read_scenario(text).model);
}

TEST(LoadModel, OneValueServesAllStagesAndAListIsOneAStage) {
  const auto stages = model_form<StageFigures>("model: {stages: {forward: 1 ms, backward: [2 ms, 3 ms]}}");
  EXPECT_EQ(stages.forward.of(7, 0), 1'000'000);
  EXPECT_EQ(stages.backward.of(1, 0), 3'000'000);
  EXPECT_EQ(stages.backward.place, "s.yaml:1:43: model.stages.backward");
  EXPECT_FALSE(stages.kept.given());
  EXPECT_EQ(stages.kept.of(3, 5), 5);
}

TEST(LoadModel, StagesMayHoldForAnotherNumberOfSamplesThanTheFilesMicrobatch) {
  const std::string text =
      "model: {batch: 4, stages: {forward: 8 ms, backward: 16 ms, overhead: 1 ms}}\n"
      "schedule: {name: gpipe, stages: 1, microbatches: 2}\ntraining: {micro_batch_size: 2}\n";
  EXPECT_EQ(read_scenario(text).batch.own_micro_batch_size, 4);
  EXPECT_EQ(prepared(text).costs.stages[0].forward_ns, 5'000'000);
}

TEST(LoadModel, TakesEveryFigureOfAStage) {
  const auto stages = model_form<StageFigures>(R"(
model:
  stages: {forward: 1 ns, backward: 9 ns, backward_input: 3 ns, backward_weight: 6 ns, recompute: 4 ns,
           overlapped_pair: 5 ns, pair_hidden: 6 ns, step: 7 ns, overhead: 8 ns, activation: 10 B, gradient: 11 B, kept: 12 B,
           released_by_input: 2 B, input: 13 B, weights: 14 B, gradients: 15 B, optimizer_state: 16 B,
           transient: 17 B, recomputed: 18 B, recomputed_at_once: 9 B, edges: [[0, 1], [0, 2]]}
)");
  EXPECT_EQ((std::vector<Ns>{stages.forward.of(0, 0), stages.backward.of(0, 0),
                             stages.backward_input.of(0, 0), stages.backward_weight.of(0, 0),
                             stages.recompute.of(0, 0), stages.overlapped_pair.of(0, 0),
                             stages.pair_hidden.of(0, 0), stages.step.of(0, 0), stages.overhead.of(0, 0)}),
            (std::vector<Ns>{1, 9, 3, 6, 4, 5, 6, 7, 8}));
  EXPECT_EQ((std::vector<Bytes>{stages.activation.of(0, 0), stages.gradient.of(0, 0), stages.kept.of(0, 0),
                                stages.released_by_input.of(0, 0), stages.input.of(0, 0),
                                stages.weights.of(0, 0), stages.gradients.of(0, 0),
                                stages.optimizer_state.of(0, 0), stages.transient.of(0, 0),
                                stages.recomputed.of(0, 0), stages.recomputed_at_once.of(0, 0)}),
            (std::vector<Bytes>{10, 11, 12, 2, 13, 14, 15, 16, 17, 18, 9}));
  EXPECT_EQ(stages.edges, (std::vector<StageEdge>{{0, 1}, {0, 2}}));
}

TEST(LoadModel, LayersReadThePreviousOneUnlessTheyNameTheirInputs) {
  const auto graph = model_form<LayerGraph>(R"(
model:
  overhead: 3 us
  layers:
    - {name: a, forward: 1 ms, backward: 2 ms, output: 4 B, weights: 5 B}
    - {forward: 1 ms, backward: 2 ms}
    - {name: c, forward: 1 ms, backward: 2 ms, inputs: []}
    - {name: d, forward: 1 ms, backward: 2 ms, inputs: [c, a, layer1]}
)");
  EXPECT_EQ(graph.layers[0], (Layer{.name = "a",
                                    .forward_ns = 1'000'000,
                                    .backward_ns = 2'000'000,
                                    .output = 4,
                                    .weights = 5,
                                    .inputs = {}}));
  EXPECT_EQ(graph.layers[1].inputs, List{0});
  EXPECT_EQ(graph.layers[2].inputs, List{});
  EXPECT_EQ(graph.layers[3].inputs, (List{0, 1, 2}));
  EXPECT_EQ(graph.overhead_ns, 3'000);
}

TEST(LoadModel, LeftOutItHasUnitCosts) {
  EXPECT_TRUE(std::holds_alternative<UnitCosts>(read_scenario("schedule: gpipe").model));
}

TEST(LoadCluster, LeftOutItHasFreeLinksAndADeviceARank) {
  const ClusterSpec spec = read_scenario("schedule: gpipe").cluster;
  EXPECT_EQ(std::get<UniformCluster>(spec.shape), (UniformCluster{.devices = 0, .memory_bytes = {}}));
  EXPECT_EQ(build_cluster(spec, 5)->device_count(), 5);
}

TEST(LoadCluster, UniformTakesItsParameters) {
  const UniformCluster expected{.devices = 4,
                                .bytes_per_second = 25e9,
                                .latency_ns = 4'000,
                                .memory_bytes = 80LL << 30,
                                .reserved_bytes = 2LL << 30,
                                .flops_per_second = 15.7e12};
  const std::string parameters =
      "devices: 4, bandwidth: 25 GB/s, latency: 4 us, memory: 80 GiB, reserve: 2 GiB, flops: 15.7 TFLOP/s";
  for (const std::string& text :
       {"cluster: {preset: uniform, " + parameters + "}", "cluster: {" + parameters + "}"}) {
    EXPECT_EQ(std::get<UniformCluster>(read_scenario(text).cluster.shape), expected) << text;
  }
}

TEST(LoadCluster, AReserveIsThatOfEachDevice) {
  const auto usable = [](const std::string& cluster) {
    const Device device = build_cluster(read_scenario("cluster: " + cluster).cluster, 1)->devices()[0];
    return usable_bytes(device.memory_bytes, device.reserved_bytes);
  };
  EXPECT_EQ(usable("{memory: 16 GiB}"), Bytes{16} << 30);
  EXPECT_EQ(usable("{memory: 16 GiB, reserve: 3 GiB}"), Bytes{13} << 30);
  EXPECT_EQ(usable("{preset: pipedream-a, reserve: 1 GiB}"), Bytes{15} << 30);
  EXPECT_EQ(usable("{devices: [{name: a, memory: 8 GiB}], reserve: 1 GiB}"), Bytes{7} << 30);
  EXPECT_EQ(usable("{reserve: 3 GiB}"), std::nullopt);
}

// A model of stages states the memory that it needs, so only a stated reserve is subtracted from its devices'
// memory.
TEST(LoadCluster, ANamedDeviceReservesNothingOfModelsThatAreNotPricedOnIt) {
  EXPECT_EQ(std::get<TwoLevelCluster>(read_scenario("cluster: {device: h100}").cluster.shape).reserved_bytes,
            0);
  EXPECT_EQ(std::get<TwoLevelCluster>(read_scenario("cluster: {device: h100, reserve: 1 GiB}").cluster.shape)
                .reserved_bytes,
            1LL << 30);
}

TEST(LoadCluster, ANamedDeviceReservesWhatItsDriverKeepsAndThreeGibibytes) {
  const auto reserved = [](const std::string& cluster) {
    return read_scenario("cluster: " + cluster).cluster.named->type.reserved_bytes;
  };
  EXPECT_EQ(reserved("{device: h100}"), (80LL << 30) - (81559LL << 20) + (3LL << 30));
  EXPECT_EQ(reserved("{device: h100, memory: 72 GiB}"), 3LL << 30)
      << "a stated memory is what the driver gives";
  EXPECT_EQ(reserved("{device: h100, memory: 72 GiB, reserve: 0}"), 0);
  EXPECT_EQ(reserved("{device: h100, reserve: 5 GiB}"), 5LL << 30);
}

TEST(LoadCluster, UnlimitedIsAWord) {
  const auto shape = std::get<UniformCluster>(
      read_scenario("cluster: {bandwidth: unlimited, memory: unlimited}").cluster.shape);
  EXPECT_EQ(shape.bytes_per_second, kUnlimitedBandwidth);
  EXPECT_EQ(shape.memory_bytes, std::nullopt);
}

TEST(LoadCluster, TwoLevelTakesItsParameters) {
  const auto shape = std::get<TwoLevelCluster>(read_scenario(R"(
cluster: {preset: two-level, nodes: 2, devices_per_node: 8, intra_bandwidth: 30 GB/s, intra_latency: 1 us,
          inter_bandwidth: 25 Gb/s, inter_latency: 5 us, memory: 16 GiB, reserve: 1 GiB, flops: 1 TFLOP/s}
)")
                                                   .cluster.shape);
  EXPECT_EQ(shape, (TwoLevelCluster{.nodes = 2,
                                    .devices_per_node = 8,
                                    .intra_bytes_per_second = 30e9,
                                    .intra_latency_ns = 1'000,
                                    .inter_bytes_per_second = 25e9 / 8,
                                    .inter_latency_ns = 5'000,
                                    .memory_bytes = 16LL << 30,
                                    .reserved_bytes = 1LL << 30,
                                    .flops_per_second = 1e12,
                                    .name = "two-level"}));
}

TEST(LoadCluster, APresetsFiguresCanBeReplacedOneByOne) {
  const TwoLevelCluster usual = find_preset("pipedream-a")->shape;
  const auto shape = std::get<TwoLevelCluster>(
      read_scenario("cluster: {preset: pipedream-a, nodes: 2, memory: unlimited}").cluster.shape);
  EXPECT_EQ(shape.nodes, 2);
  EXPECT_EQ(shape.memory_bytes, std::nullopt);
  EXPECT_EQ(shape.devices_per_node, usual.devices_per_node);
  EXPECT_EQ(shape.inter_bytes_per_second, usual.inter_bytes_per_second);
}

TEST(LoadCluster, APresetsNameAloneIsACluster) {
  EXPECT_EQ(std::get<TwoLevelCluster>(read_scenario("cluster: dgx-h100").cluster.shape),
            find_preset("dgx-h100")->shape);
}

TEST(LoadCluster, DevicesSwitchesAndLinksOneByOne) {
  const Scenario scenario = read_scenario(R"(
cluster:
  name: pair
  devices: [{name: a, memory: 1 GiB, flops: 2 TFLOP/s}, b]
  switches: [s]
  links:
    - {between: [a, s], bandwidth: 1 GB/s, latency: 2 us}
    - {between: [s, b], latency: 3 us}
    - {between: [b, a], bandwidth: 5 GB/s, latency: 1 us, duplex: false}
)");
  const auto& cluster = std::get<Cluster>(scenario.cluster.shape);
  EXPECT_EQ(cluster.device_count(), 2);
  EXPECT_EQ(cluster.devices()[0].memory_bytes, 1LL << 30);
  EXPECT_EQ(cluster.links().size(), 5U);
  EXPECT_EQ(cluster.route(0, 1).latency_ns, 5'000);
  EXPECT_EQ(cluster.route(0, 1).bytes_per_second, 1e9);
  EXPECT_EQ(cluster.route(1, 0).latency_ns, 1'000);
}

TEST(LoadSchedule, TakesEveryOptionOfTheShape) {
  const Scenario scenario = read_scenario(R"(
schedule: {name: 1F1B_RR, stages: 3, microbatches: 8, virtual_stages: 2, replicas: [2, 1, 1], depth: [3, 2, 1],
           backward_order: lifo, checkpoint: except_last, recompute: late, routing: global, weights: vertical_sync,
           replica_sync: off, reduction: at_end, update: microbatch, barrier: true,
           group_size: 4, slices: 2, data_parallel: 3, memory_limit: [1 KiB, 2 KiB],
           passes: 40, seed: 7, budget: 2 s, objective: makespan, placement: v}
training: {iterations: 5}
)");
  EXPECT_EQ(scenario.schedule, "1F1B_RR");
  EXPECT_EQ(scenario.batch.microbatches, 8);
  Shape expected;
  expected.stages = 3;
  expected.virtual_stages = 2;
  expected.iterations = 5;
  expected.barrier = true;
  expected.replicas = {2, 1, 1};
  expected.warmup = {2, 1, 0};
  expected.backward_order = BackwardOrder::lifo;
  expected.checkpoint = Checkpoint::except_last;
  expected.recompute = RecomputeTiming::late;
  expected.routing = Routing::global;
  expected.weights = WeightPolicy::vertical_sync;
  expected.replica_sync = ReplicaSync::off;
  expected.reduction = Reduction::at_end;
  expected.update = UpdateRule::microbatch;
  expected.group_size = 4;
  expected.effort = {.passes = 40, .seed = 7, .budget_seconds = 2};
  expected.objective = Objective::makespan;
  expected.placement = ChunkPlacement::v;
  expected.slices = 2;
  expected.data_parallel = 3;
  expected.memory_limit = {1024, 2048};
  EXPECT_EQ(scenario.shape, expected);
}

TEST(LoadSchedule, TakesTheChannels) {
  const Scenario scenario =
      read_scenario("schedule: {name: gpipe, channel: pair, blocking: yes, capacity: 2, eager: 64 KiB}");
  EXPECT_EQ(
      scenario.channels,
      (ChannelOptions{
          .model = ChannelModel::pair, .blocking = Blocking::each, .capacity = 2, .eager_bytes = 65536}));
  EXPECT_EQ(read_scenario("schedule: {name: gpipe, capacity: unlimited}").channels, ChannelOptions{});
}

TEST(LoadSchedule, AMappingOfChannelsIsToldItsKeys) {
  for (const char* schedule : {"name: gpipe", "program: parts/two_ranks.csv"}) {
    EXPECT_EQ(refusal(fmt::format("schedule: {{{}, channel: {{blocking: batched}}}}", schedule)).substr(7),
              fmt::format(
                  "1:{}: schedule.channel: expected rank or pair or direction or directed or boundary, got a "
                  "mapping; blocking, capacity, eager and launch_order stand beside it, as in schedule: "
                  "{{channel: directed, blocking: batched}}",
                  std::string_view(schedule).size() + 23));
  }
}

TEST(LoadSchedule, RecomputeAloneTurnsCheckpointsOn) {
  const auto shape = [](const std::string& options) {
    return read_scenario("schedule: {name: gpipe, " + options + "}").shape;
  };
  EXPECT_EQ(shape("recompute: late").checkpoint, Checkpoint::always);
  EXPECT_EQ(shape("recompute: early").checkpoint, Checkpoint::always);
  EXPECT_EQ(shape("recompute: none").checkpoint, Checkpoint::never);
  EXPECT_EQ(shape("checkpoint: always").recompute, RecomputeTiming::early);
}

TEST(LoadSchedule, ANameAloneIsASchedule) {
  EXPECT_EQ(read_scenario("schedule: Schedule1F1B").schedule, "Schedule1F1B");
  EXPECT_EQ(read_scenario("training: {iterations: 2}").schedule, "");
}

TEST(LoadSchedule, AProgramFileStandsForOne) {
  const Scenario scenario = read_scenario("schedule: parts/two_ranks.csv\ntraining: {iterations: 3}");
  ASSERT_TRUE(scenario.program);
  EXPECT_EQ(scenario.program->ranks.size(), 2U);
  EXPECT_EQ(scenario.program->iterations, 3);
  EXPECT_EQ(read_scenario("schedule: {program: parts/two_ranks.csv, channel: rank}").channels.model,
            ChannelModel::rank);
}

std::int32_t stages_of(const std::string& text) { return read_scenario(text).shape.stages; }

TEST(LoadSchedule, StagesDefaultToTheLongestListOfTheModel) {
  EXPECT_EQ(stages_of("schedule: gpipe"), 1);
  EXPECT_EQ(stages_of("model: {stages: {forward: [1 ms, 2 ms, 1 ms], backward: 1 ms}}"), 3);
  EXPECT_EQ(stages_of("model: {stages: {forward: 1 ms, backward: 1 ms, kept: [1 B, 2 B]}}"), 2);
  EXPECT_EQ(stages_of("model: {stages: {forward: [1 ms, 1 ms, 1 ms, 1 ms], backward: 1 ms}}\n"
                      "schedule: {name: interleaved, virtual_stages: 2}"),
            2);
}

TEST(LoadSchedule, StagesDefaultToOnePerEntryOfReplicasAndOneMoreThanCuts) {
  EXPECT_EQ(stages_of("schedule: {name: 1f1b-rr, replicas: [2, 1]}"), 2);
  EXPECT_EQ(stages_of("partition: [3, 5]"), 3);
}

TEST(LoadSchedule, StagesCountTheChunksThatTheScheduleFixes) {
  EXPECT_EQ(stages_of("model: {stages: {forward: [1 ms, 1 ms, 1 ms, 1 ms], backward: 1 ms}}\n"
                      "schedule: {name: zbv-zero-bubble}"),
            2);
}

TEST(LoadSchedule, StagesThatAreGivenStand) {
  EXPECT_EQ(
      stages_of(
          "model: {stages: {forward: [1 ms, 2 ms], backward: 1 ms}}\nschedule: {name: gpipe, stages: 3}"),
      3);
}

TEST(LoadModel, ANetworkStandsBesideTheFormThatItsCostsHave) {
  const Scenario scenario = read_scenario(
      "model: {network: {transformer: {width: 64, heads: 4}}, stages: {forward: 1 ms, backward: 2 ms}}");
  EXPECT_TRUE(std::holds_alternative<StageFigures>(scenario.model));
  ASSERT_TRUE(scenario.network);
  EXPECT_EQ(scenario.network->name, "transformer");
  EXPECT_EQ(scenario.network->sizes, (std::map<std::string, std::int64_t>{{"heads", 4}, {"width", 64}}));
  EXPECT_EQ(scenario.network->place, "s.yaml:1:18: model.network");
}

TEST(LoadModel, ANetworkAloneHasUnitCosts) {
  const Scenario scenario = read_scenario("model: {network: conv-net}");
  EXPECT_TRUE(std::holds_alternative<UnitCosts>(scenario.model));
  EXPECT_EQ(scenario.network->name, "conv-net");
  EXPECT_FALSE(read_scenario("schedule: 1f1b").network);
}

TEST(LoadPartition, IsAWordOrAListOfCuts) {
  EXPECT_EQ(read_scenario("partition: balanced").partition.rule, Partition::Rule::balanced);
  EXPECT_EQ(read_scenario("partition: [4, 9]").partition,
            (Partition{.rule = Partition::Rule::cuts, .cuts = {4, 9}}));
  EXPECT_EQ(read_scenario("schedule: gpipe").partition.rule, Partition::Rule::unset);
}

TEST(LoadPartition, OfAModelOfStagesIsNotedAsUnused) {
  const Scenario scenario =
      read_scenario("model: {stages: {forward: 1 ms, backward: 1 ms}}\npartition: balanced");
  EXPECT_EQ(scenario.notes,
            std::vector<std::string>{"partition is not used: the model is given stage by stage"});
}

TEST(LoadTraining, TakesSizesOptimizerAndIterations) {
  const Scenario scenario = read_scenario(
      "training: {micro_batch_size: 4, global_batch_size: 128, optimizer: adam, iterations: 2}");
  EXPECT_EQ(scenario.batch.micro_batch_size, 4);
  EXPECT_EQ(scenario.batch.global_batch_size, 128);
  EXPECT_EQ(scenario.batch.own_micro_batch_size, 4);
  EXPECT_EQ(scenario.optimizer, Optimizer::adam);
  EXPECT_EQ(scenario.shape.iterations, 2);
}

TEST(LoadTraining, TakesPrecisionAndFailures) {
  const Scenario scenario = read_scenario(
      "training: {optimizer: adam, precision: mixed, failures: {mtbf: 50000 h, checkpoint_cost: 2 min, "
      "restart: 10 min, checkpoint_every: 1 h}}");
  EXPECT_EQ(scenario.precision, Precision::mixed);
  constexpr Ns kMinute = 60'000'000'000;
  EXPECT_EQ(scenario.failures, (FailureRates{.device_mtbf_ns = 50'000 * 60 * kMinute,
                                             .save_ns = 2 * kMinute,
                                             .restart_ns = 10 * kMinute,
                                             .interval_ns = 60 * kMinute}));
  const Scenario plain = read_scenario("training: {failures: {mtbf: 1 h}}");
  EXPECT_EQ(plain.precision, Precision::full);
  EXPECT_EQ(plain.failures, FailureRates{.device_mtbf_ns = 60 * kMinute});
  EXPECT_FALSE(read_scenario("training: {optimizer: sgd}").failures);
}

// Bytes for each parameter with Adam: 2 + 2 + 12 in ZeRO (SC'20, section 3.1), and 2 + 4 + 12 in Megatron-LM.
TEST(Precision, SaysWhatIsHeldBesideTheWeights) {
  const auto stage = [](const std::string& training) {
    return prepared(
               "model: {stages: {forward: 1 ms, backward: 1 ms, weights: 200 B}}\nschedule: {name: gpipe, "
               "stages: 1, "
               "microbatches: "
               "1}\ntraining: {" +
               training + "}")
        .costs.stages.front();
  };
  const auto held = [&](const std::string& training) {
    return std::vector<Bytes>{stage(training).weights, stage(training).gradients,
                              stage(training).optimizer_state};
  };
  EXPECT_EQ(held("optimizer: adam"), (std::vector<Bytes>{200, 200, 400}));
  EXPECT_EQ(held("optimizer: adam, precision: full"), (std::vector<Bytes>{200, 200, 400}));
  EXPECT_EQ(held("optimizer: adam, precision: mixed"), (std::vector<Bytes>{200, 200, 1200}));
  EXPECT_EQ(held("optimizer: adam, precision: mixed-full-gradients"), (std::vector<Bytes>{200, 400, 1200}));
  EXPECT_EQ(held("optimizer: sgd, precision: mixed"), (std::vector<Bytes>{200, 200, 400}));
  EXPECT_EQ(held("optimizer: momentum, precision: mixed"), (std::vector<Bytes>{200, 200, 800}));
  EXPECT_EQ(held("optimizer: rmsprop, precision: mixed"), (std::vector<Bytes>{200, 200, 800}));
}

TEST(LoadSchedule, TakesSharding) {
  const auto sharding = [](const std::string& word) {
    return read_scenario("schedule: {name: data-parallel, replicas: 2, microbatches: 2, sharding: " + word +
                         "}")
        .shape.sharding;
  };
  EXPECT_EQ(sharding("none"), 0);
  EXPECT_EQ(sharding("0"), 0);
  EXPECT_EQ(sharding("2"), 2);
  EXPECT_EQ(
      prepared("schedule: {name: data-parallel, replicas: 2, microbatches: 2, sharding: 3}").program.sharding,
      3);
}

// `gather` is the only key of `parallel:` that is allowed for any model.
TEST(LoadParallel, TakesGatherWithoutDevices) {
  const std::string schedule =
      "schedule: {name: 1f1b, stages: 1, microbatches: 8, data_parallel: 2, sharding: 3}\n";
  const auto gathers = [&](const std::string& parallel) {
    const std::vector<Action> actions = prepared(schedule + parallel).program.ranks.front();
    return std::ranges::count(actions, ActionKind::unshard, &Action::kind);
  };
  EXPECT_EQ(gathers(""), 2 * 4) << "both passes of four microbatches";
  EXPECT_EQ(gathers("parallel: {gather: microbatch}"), 2 * 4);
  EXPECT_EQ(gathers("parallel: {gather: step}"), 1);
}

TEST(LoadLayers, HoldTheLargestTransientOfTheirStage) {
  const Experiment experiment = prepared(
      "model: {layers: [{name: a, forward: 1 ms, backward: 1 ms, transient: 30 B}, {name: b, forward: 1 ms, "
      "backward: 1 ms, transient: 70 B}, {name: c, forward: 1 ms, backward: 1 ms}]}\n"
      "schedule: {name: gpipe, stages: 2, microbatches: 1}\npartition: [2]");
  EXPECT_EQ(experiment.costs.stages[0].transient, 70);
  EXPECT_EQ(experiment.costs.stages[1].transient, 0);
}

}  // namespace
}  // namespace penstock
