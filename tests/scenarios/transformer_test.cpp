// Compares the analytic transformer with figures in the papers of its formulas, and tests it as a form of
// `model:`.

#include "scenarios/model/transformer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/cost_table.hpp"
#include "tests/scenarios/read_scenario.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

/// The 175B model of Korthikanti et al. on ranks of 8 devices.
constexpr TransformerShape kGpt175{.layers = 96,
                                   .hidden = 12288,
                                   .heads = 96,
                                   .sequence = 2048,
                                   .vocabulary = 51200,
                                   .feed_forward = 4 * 12288,
                                   .tensor_parallel = 8};
/// The 1T model of Korthikanti et al.
constexpr TransformerShape kGpt1000{.layers = 128,
                                    .hidden = 25600,
                                    .heads = 160,
                                    .sequence = 2048,
                                    .vocabulary = 51200,
                                    .feed_forward = 4 * 25600,
                                    .tensor_parallel = 8};

TransformerShape with(TransformerShape shape, std::int64_t tensor_parallel, bool sequence_parallel,
                      BlockRecompute recompute) {
  shape.tensor_parallel = tensor_parallel;
  shape.sequence_parallel = sequence_parallel;
  shape.recompute = recompute;
  return shape;
}

LayerGraph layers_of(const TransformerShape& shape, const TransformerSpeed& speed) {
  auto graph = transformer_layers(shape, speed);
  EXPECT_TRUE(graph) << graph.error();
  return graph.value_or(LayerGraph{});
}

// --- parameters and operations --------------------------------------------------------------------------

TEST(TransformerParameters, AreThoseOfMegatronsTable1) {
  struct Row {
    std::int64_t layers;
    std::int64_t hidden;
    double billions;
  };
  for (const Row& row : {Row{24, 2304, 1.7},
                         {30, 3072, 3.6},
                         {40, 6144, 18.4},
                         {48, 8192, 39.1},
                         {60, 10240, 76.1},
                         {96, 16384, 310.1},
                         {105, 20480, 529.6}}) {
    EXPECT_NEAR(parameter_count({.layers = row.layers,
                                 .hidden = row.hidden,
                                 .sequence = 2048,
                                 .vocabulary = 51200,
                                 .feed_forward = 4 * row.hidden}) /
                    1e9,
                row.billions, 0.06);
  }
}

TEST(TransformerParameters, OfGpt2AreAllButTheLastLayerNorm) {
  EXPECT_EQ(parameter_count({.layers = 12,
                             .hidden = 768,
                             .heads = 12,
                             .sequence = 1024,
                             .vocabulary = 50257,
                             .feed_forward = 3072}),
            124'439'808 - 2 * 768);
}

TEST(TransformerParameters, FollowTheInnerWidth) {
  const TransformerShape narrow{.layers = 3, .hidden = 64, .feed_forward = 100};
  TransformerShape wide = narrow;
  wide.feed_forward = 110;
  EXPECT_EQ(parameter_count(wide) - parameter_count(narrow), 3 * 10 * (2 * 64 + 1));
}

TEST(TransformerFlops, AreThoseOfMegatronsIteration) {
  const TransformerShape gpt{.layers = 40,
                             .hidden = 6144,
                             .heads = 48,
                             .sequence = 2048,
                             .vocabulary = 51200,
                             .feed_forward = 4 * 6144,
                             .recompute = BlockRecompute::full};
  EXPECT_NEAR(1024 * hardware_flops(gpt), 3.2483971531014144e17, 1e9);  // 96 B s l h^2 (1 + ...)
  EXPECT_NEAR(1024 * hardware_flops(gpt) / 9.399 / 256, 135e12, 0.5e12);
}

TEST(TransformerFlops, GiveMtNlgsPublishedRate) {
  const TransformerShape mt_nlg{.layers = 105,
                                .hidden = 20480,
                                .heads = 128,
                                .sequence = 2048,
                                .vocabulary = 51200,
                                .feed_forward = 4 * 20480,
                                .recompute = BlockRecompute::full};
  EXPECT_NEAR(1920 * hardware_flops(mt_nlg) / 60.1 / 2240, 126e12, 0.01 * 126e12);
  EXPECT_NEAR(1920 * hardware_flops(mt_nlg) / 50.2 / 2800, 121e12, 0.01 * 121e12);
}

TEST(TransformerFlops, GiveThePublishedUtilisationOfModelAndHardware) {
  const TransformerShape selective = with(kGpt175, 8, true, BlockRecompute::selective);
  EXPECT_NEAR(64 * model_flops(selective) / 13.75 / 64 / 312e12, 0.514, 0.0035);
  EXPECT_NEAR(64 * hardware_flops(selective) / 13.75 / 64 / 312e12, 0.528, 0.0035);
  const TransformerShape larger = with(kGpt1000, 8, true, BlockRecompute::selective);
  EXPECT_NEAR(512 * model_flops(larger) / 71.49 / 512 / 312e12, 0.563, 0.0035);
  EXPECT_NEAR(512 * hardware_flops(larger) / 71.49 / 512 / 312e12, 0.570, 0.0035);
}

TEST(TransformerFlops, AreTheModelsWhereNothingIsRecomputed) {
  EXPECT_EQ(hardware_flops(kGpt175), model_flops(kGpt175));
}

// --- activations ----------------------------------------------------------------------------------------

TEST(TransformerActivations, AreThoseOfTheRecomputationPapersTable2) {
  struct Row {
    TransformerShape shape;
    Bytes none, tensor, tensor_sequence, tensor_selective, all, full;
  };
  for (const Row& row :
       {Row{kGpt175, 2'868'903'936, 578'813'952, 358'612'992, 327'155'712, 106'954'752, 50'331'648},
        Row{kGpt1000, 5'138'022'400, 1'101'004'800, 642'252'800, 681'574'400, 222'822'400, 104'857'600}}) {
    const auto kept = [&](std::int64_t tensor, bool sequence, BlockRecompute recompute) {
      return kept_of_block(with(row.shape, tensor, sequence, recompute));
    };
    EXPECT_EQ(kept(1, false, BlockRecompute::none), row.none);
    EXPECT_EQ(kept(8, false, BlockRecompute::none), row.tensor);
    EXPECT_EQ(kept(8, true, BlockRecompute::none), row.tensor_sequence);
    EXPECT_EQ(kept(8, false, BlockRecompute::selective), row.tensor_selective);
    EXPECT_EQ(kept(8, true, BlockRecompute::selective), row.all);
    EXPECT_EQ(kept(8, true, BlockRecompute::full), row.full) << "2 s h, whatever is parallel";
    EXPECT_EQ(kept(1, false, BlockRecompute::full), row.full);
  }
}

TEST(TransformerActivations, OfWiderValuesGrowButTheirMasksDoNot) {
  TransformerShape shape{.hidden = 64, .heads = 4, .sequence = 16, .feed_forward = 256};
  shape.bytes_per_value = 4;
  EXPECT_EQ(kept_of_block(shape), 16 * 64 * (2 * 32 + 2) + (2 * 4 + 1) * 4 * 16 * 16);
}

// --- layers ---------------------------------------------------------------------------------------------

/// A model with h = 64, s = 32, V = 100, f = 256. A block has 24 s h^2 + 4 s^2 h = 3'407'872 operations.
constexpr TransformerShape kSmall{
    .layers = 3, .hidden = 64, .heads = 8, .sequence = 32, .vocabulary = 100, .feed_forward = 256};
constexpr Ns kSmallForward = 3'407'872;
constexpr TransformerSpeed kOneFlopANanosecond{.flops_per_second = 2e9, .efficiency = 0.5};

TEST(TransformerLayers, AreAnEmbeddingBlocksAndAHead) {
  const LayerGraph graph = layers_of(kSmall, kOneFlopANanosecond);
  ASSERT_EQ(graph.layers.size(), 5);
  EXPECT_EQ(graph.layers[0], (Layer{.name = "embedding",
                                    .output = 32 * 64 * 2,
                                    .kept = 32 * 64,
                                    .weights = (100 + 32) * 64 * 2,
                                    .inputs = {}}));
  EXPECT_EQ(graph.layers[2], (Layer{.name = "block1",
                                    .forward_ns = kSmallForward,
                                    .backward_ns = 2 * kSmallForward,
                                    .output = 32 * 64 * 2,
                                    .kept = 32 * 64 * 34 + 5 * 8 * 32 * 32,
                                    .weights = (12 * 64 * 64 + 13 * 64) * 2,
                                    .inputs = {1}}));
  EXPECT_EQ(graph.layers[4], (Layer{.name = "head",
                                    .forward_ns = 2 * 32 * 64 * 100,
                                    .backward_ns = 4 * 32 * 64 * 100,
                                    .output = 0,
                                    .kept = 32 * (4 * 64 + 4 * 100),
                                    .weights = 64 * 100 * 2,
                                    .inputs = {3}}));
}

TEST(TransformerLayers, OnTwoDevicesHaveHalfTheWeightsAndTwoAllReducesEachWay) {
  TransformerShape two = kSmall;
  two.tensor_parallel = 2;
  TransformerSpeed speed = kOneFlopANanosecond;
  speed.tensor_bytes_per_second = 1e9;
  const Layer one = layers_of(kSmall, kOneFlopANanosecond).layers[1];
  const Layer half = layers_of(two, speed).layers[1];
  const Ns all_reduces = 2 * one.output;  // each moves 2 (t - 1)/t = 1 times the output at 1 B/ns
  EXPECT_EQ(half.weights, one.weights / 2);
  EXPECT_EQ(half.output, one.output);
  EXPECT_EQ(half.forward_ns, one.forward_ns / 2 + all_reduces);
  EXPECT_EQ(half.backward_ns, one.backward_ns / 2 + all_reduces);
}

TEST(TransformerLayers, RecomputeInTheirBackward) {
  TransformerShape shape = kSmall;
  shape.tensor_parallel = 2;
  TransformerSpeed speed = kOneFlopANanosecond;
  speed.tensor_bytes_per_second = 1e9;
  const Layer none = layers_of(shape, speed).layers[1];
  shape.recompute = BlockRecompute::selective;
  const Layer selective = layers_of(shape, speed).layers[1];
  shape.recompute = BlockRecompute::full;
  const Layer full = layers_of(shape, speed).layers[1];
  EXPECT_EQ(selective.backward_ns - none.backward_ns, 3 * 4 * 32 * 32 * 64 / 2);
  EXPECT_EQ(full.backward_ns - none.backward_ns, none.forward_ns) << "with its all-reduces";
  EXPECT_EQ(full.forward_ns, none.forward_ns);
}

TEST(TransformerLayers, SendAndKeepTheirPartOfTheSequence) {
  TransformerShape shape = kSmall;
  shape.tensor_parallel = 4;
  shape.sequence_parallel = true;
  const LayerGraph graph =
      layers_of(shape, {.flops_per_second = 1e9, .tensor_bytes_per_second = kUnlimitedBandwidth});
  EXPECT_EQ(graph.layers[0].output, 32 * 64 * 2 / 4);
  EXPECT_EQ(graph.layers[1].output, 32 * 64 * 2 / 4);
  EXPECT_EQ(graph.layers[0].kept, 32 * 64 / 4);
  EXPECT_EQ(graph.layers[4].kept, 32 * (4 * 64 + 4 * 100) / 4);
}

TEST(TransformerLayers, OfTheLargestSizesAreRefusedAndNotWrapped) {
  constexpr std::int64_t kLarge = 1 << 24;
  const TransformerShape largest{.hidden = kLarge,
                                 .heads = kLarge,
                                 .sequence = kLarge,
                                 .vocabulary = kLarge,
                                 .feed_forward = 4 * kLarge,
                                 .bytes_per_value = 8};
  const auto graph = transformer_layers(largest, {.flops_per_second = 1e30});
  ASSERT_FALSE(graph);
  EXPECT_TRUE(graph.error().starts_with("the layer block0 would take more than 2^63")) << graph.error();
}

// --- in a file ------------------------------------------------------------------------------------------

const std::string kSizes = "layers: 7, hidden: 64, heads: 8, sequence: 32, vocabulary: 100, efficiency: 0.5";
const std::string kRest =
    "cluster: {flops: 2 GFLOP/s}\n"
    "schedule: {name: 1f1b, stages: 4, microbatches: 8}\n"
    "partition: balanced\n"
    "training: {micro_batch_size: 3}\n";

std::string transformer_with(const std::string& keys) {
  return "model: {transformer: {" + kSizes + keys + "}}\n" + kRest;
}

TEST(TransformerModel, IsCutAndPricedLikeOtherLayers) {
  const Experiment experiment = prepared(transformer_with(""));
  ASSERT_EQ(experiment.costs.stages.size(), 4);
  EXPECT_EQ(experiment.costs.stages[0].forward_ns, 3 * 2 * kSmallForward);
  EXPECT_EQ(experiment.costs.stages[1].forward_ns, 3 * 2 * kSmallForward);
  EXPECT_EQ(experiment.costs.stages[1].kept, 3 * 2 * (32 * 64 * 34 + 5 * 8 * 32 * 32));
  EXPECT_EQ(experiment.costs.stages[3].forward_ns, 3 * (kSmallForward + 2 * 32 * 64 * 100))
      << "7 blocks on 4 stages: the head stands beside one";
  for (const EdgeCost& edge : experiment.costs.edges) EXPECT_EQ(edge.activation, 3 * 32 * 64 * 2);
}

TEST(TransformerModel, TakesThePeakRateOfEveryFormOfCluster) {
  const auto forward_on = [](const std::string& cluster) {
    return prepared("model: {transformer: {" + kSizes + "}}\n" + cluster +
                    "\nschedule: {name: gpipe, microbatches: 1}\n")
        .costs.stages[0]
        .forward_ns;
  };
  const Ns usual = 7 * kSmallForward + 2 * 32 * 64 * 100;
  EXPECT_EQ(forward_on("cluster: {preset: two-level, nodes: 1, devices_per_node: 2, flops: 2 GFLOP/s}"),
            usual);
  EXPECT_EQ(forward_on("cluster: {devices: [{name: a, flops: 4 GFLOP/s}, {name: b, flops: 4 GFLOP/s}], "
                       "links: [{between: [a, b]}]}"),
            usual / 2);
}

// There are two fast devices with 990 TFLOP/s, one with a third of this rate (312), and two with a sixth
// (155).
//
//   device   a      b      c     d     e
//   blocks   12     13     4     2     1, and a has the embedding, e the head
TEST(TransformerModel, OnUnlikeDevicesIsCutByTheRateOfEach) {
  const std::string text =
      "model: {transformer: {layers: 32, hidden: 4096, heads: 32, sequence: 2048, vocabulary: 32000, "
      "efficiency: 0.45}}\n"
      "cluster:\n"
      "  devices: [{name: a, flops: 990 TFLOP/s}, {name: b, flops: 990 TFLOP/s}, {name: c, flops: 312 "
      "TFLOP/s}, {name: d, flops: 155 TFLOP/s}, {name: e, flops: 155 TFLOP/s}]\n"
      "  switches: [s]\n"
      "  links: [{between: [a, s]}, {between: [b, s]}, {between: [c, s]}, {between: [d, s]}, "
      "{between: [e, s]}]\n"
      "schedule: {name: 1f1b, stages: 5, microbatches: 32}\n";
  const Experiment best = prepared(text + "partition: balanced\n");
  std::vector<double> forward_ms;
  for (const StageCost& cost : best.costs.stages)
    forward_ms.push_back(std::round(static_cast<double>(cost.forward_ns) / 1e5) / 10);
  EXPECT_THAT(forward_ms, testing::ElementsAre(24.1, 26.1, 25.5, 25.6, 20.5));
  EXPECT_THAT(best.notes, testing::Contains(testing::HasSubstr(
                              "embedding..block11 x 1, block12..block24 x 1, block25..block28 x 3.173, "
                              "block29..block30 x 6.387, block31..head x 6.387")));
  // A cut by the number of layers gives too much work to the slow devices.
  const Experiment even = prepared(text + "partition: [8, 15, 21, 27]\n");
  EXPECT_GT(even.costs.stages[4].forward_ns, 3 * best.costs.stages[4].forward_ns);
  EXPECT_NEAR(static_cast<double>(even.costs.stages[4].backward_ns),
              2.0 * static_cast<double>(even.costs.stages[4].forward_ns), 100);
}

TEST(TransformerModel, OnUnlikeDevicesIsNeitherPlannedNorCutInBlocks) {
  const std::string text =
      "model: {transformer: {layers: 4, hidden: 64, heads: 8, sequence: 32, vocabulary: 100, efficiency: "
      "0.45}}\n"
      "cluster: {devices: [{name: a, flops: 312 TFLOP/s}, {name: b, flops: 989 TFLOP/s}], links: [{between: "
      "[a, b]}]}\n"
      "schedule: {name: gpipe, stages: 2, microbatches: 4}\n";
  for (const std::string rule : {"block", "pipedream"}) {
    const auto refused = prepare(read_scenario(text + "partition: " + rule + "\n"));
    ASSERT_FALSE(refused) << rule;
    EXPECT_THAT(refused.error().message, testing::HasSubstr("balanced")) << rule;
  }
}

TEST(TransformerModel, TakesOverridesAndOverhead) {
  const std::string text = "model: {overhead: 7 us, transformer: {" + kSizes + "}}\n" + kRest;
  const Experiment experiment = prepared(text, {{"cluster.flops", "4 GFLOP/s"}, {"schedule.stages", "1"}});
  EXPECT_EQ(experiment.costs.stages[0].forward_ns, 7'000 + 3 * (7 * kSmallForward + 2 * 32 * 64 * 100) / 2);
}

TEST(TransformerModel, SaysThatARankIsAGroup) {
  const auto mentions_group = [](const Experiment& experiment) {
    for (const std::string& note : experiment.notes) {
      if (note.starts_with("a rank is a group of 4 devices (tensor_parallel): ")) return true;
    }
    return false;
  };
  EXPECT_TRUE(mentions_group(
      prepared(transformer_with(", tensor_parallel: 4, tensor_bandwidth: 300 GB/s, recompute: full"))));
  EXPECT_FALSE(mentions_group(prepared(transformer_with(""))));
}

TEST(TransformerModel, CostsWhatTheDevicesOfItsGroupDo) {
  const auto price_of = [](const std::string& keys) {
    return prepared(transformer_with(keys), {{"cluster.price", "2.5"}}).price_per_device_hour;
  };
  EXPECT_EQ(price_of(", tensor_parallel: 4, tensor_bandwidth: 300 GB/s"), 10);
  EXPECT_EQ(price_of(""), 2.5);
}

TEST(TransformerModel, RunsAsCopiesOfAPipelineOfGroups) {
  // Pipeline, data and tensor parallelism are combined: 4 stages x 2 copies are 8 ranks with 4 devices each.
  const Experiment experiment = prepared(transformer_with(", tensor_parallel: 4, tensor_bandwidth: 300 GB/s"),
                                         {{"schedule.data_parallel", "2"}});
  EXPECT_EQ(experiment.program.rank_count(), 8);
  EXPECT_EQ(experiment.costs.stages.size(), 4);
  const Experiment alone = prepared(transformer_with(""), {{"schedule.data_parallel", "2"}});
  EXPECT_EQ(experiment.costs.stages[1].weights, alone.costs.stages[1].weights / 4);
}

TEST(TransformerModel, KeysAreReadAsTheyAreWritten) {
  const Scenario scenario = read_scenario(
      transformer_with(", feed_forward: 128, bytes_per_value: 4, tensor_parallel: 2, "
                       "sequence_parallel: on, tensor_bandwidth: 1 GB/s, recompute: selective"));
  const TransformerShape shape{.layers = 7,
                               .hidden = 64,
                               .heads = 8,
                               .sequence = 32,
                               .vocabulary = 100,
                               .feed_forward = 128,
                               .bytes_per_value = 4,
                               .tensor_parallel = 2,
                               .sequence_parallel = true,
                               .recompute = BlockRecompute::selective};
  EXPECT_EQ(std::get<LayerGraph>(scenario.model),
            layers_of(shape, {.flops_per_second = 2e9, .efficiency = 0.5, .tensor_bytes_per_second = 1e9}));
}

TEST(TransformerModel, IsWrittenAsLayersAndReadsBack) {
  Scenario scenario = read_scenario(transformer_with(", recompute: full"));
  scenario.schedule = "1f1b-rr";
  scenario.shape.replicas = {1, 1, 1, 1};
  scenario.partition = {.rule = Partition::Rule::cuts, .cuts = {2, 4, 6}};
  scenario.failures = {
      .device_mtbf_ns = 50'000'000'000'000, .save_ns = 7, .restart_ns = 0, .interval_ns = 90'000'000'000};
  const auto text = scenario_to_yaml(scenario, "");
  ASSERT_TRUE(text) << text.error();
  const Scenario read = read_scenario(*text);
  EXPECT_EQ(read.model, scenario.model);
  EXPECT_EQ(read.precision, Precision::mixed);
  EXPECT_EQ(read.failures, scenario.failures);
  EXPECT_EQ(prepared(read).costs, prepared(scenario).costs);
}

TEST(TransformerModel, OfTwoByteValuesIsMixedUnlessItsTrainingSaysOtherwise) {
  const auto precision = [](const std::string& keys, const std::vector<Override>& overrides) {
    return read_scenario(transformer_with(keys), overrides).precision;
  };
  EXPECT_EQ(precision("", {}), Precision::mixed);
  EXPECT_EQ(precision(", bytes_per_value: 4", {}), Precision::full);
  EXPECT_EQ(precision("", {{"training.precision", "full"}}), Precision::full);
  EXPECT_EQ(precision(", bytes_per_value: 4", {{"training.precision", "mixed-full-gradients"}}),
            Precision::mixed_full_gradients);
}

// At any time, one block has all its activations again. They have as many bytes as in a block without
// recomputation.
TEST(TransformerModel, HoldsABlockThatItRecomputes) {
  const auto block = [](const std::string& keys) {
    return std::get<LayerGraph>(read_scenario(transformer_with(keys)).model).layers[1];
  };
  const Bytes whole = block("").kept_bytes();
  EXPECT_EQ(block("").transient, 0);
  for (const std::string keys : {", recompute: full", ", recompute: selective"}) {
    EXPECT_GT(block(keys).transient, 0);
    EXPECT_EQ(block(keys).kept_bytes() + block(keys).transient, whole);
  }
}

// W reads the inputs of products. It does not read the attention core, because the core has no weights.
TEST(TransformerModel, KeepsWhatIHasComputedAgainForW) {
  const auto block = [](const std::string& keys) {
    return std::get<LayerGraph>(read_scenario(transformer_with(keys)).model).layers[1];
  };
  EXPECT_EQ(block("").recomputed, 0);
  EXPECT_EQ(block(", recompute: selective").recomputed, 0);
  EXPECT_EQ(block(", recompute: full").recomputed,
            block(", recompute: selective").kept_bytes() - block(", recompute: full").kept_bytes());
}

TEST(TransformerModel, IsPlannedByWhatItKeeps) {
  const auto held_in = [](const std::string& keys) {
    const Experiment experiment =
        prepared("model: {transformer: {" + kSizes + keys +
                 "}}\ncluster: {preset: uniform, devices: 2, bandwidth: 1 GB/s, flops: 2 GFLOP/s}\n"
                 "schedule: {name: 1f1b-rr, microbatches: 8}\n"
                 "partition: {rule: pipedream, memory_limit: 2.5 MB}\n"
                 "training: {micro_batch_size: 2, precision: full}\n");
    return experiment.program.stage_count();
  };
  EXPECT_EQ(held_in(", recompute: full"), 1) << "fits as two replicas";
  EXPECT_EQ(held_in(""), 2) << "keeps 221184 B a block for two samples, which does not";
}

// --- Hugging Face ---------------------------------------------------------------------------------------

TEST(HuggingFaceModel, HasTheSizesOfItsConfiguration) {
  const Scenario scenario =
      read_scenario("model: {huggingface: parts/config.json, efficiency: 0.5}\n" + kRest);
  const TransformerShape gpt2{
      .layers = 12, .hidden = 768, .heads = 12, .sequence = 1024, .vocabulary = 50257, .feed_forward = 3072};
  EXPECT_EQ(std::get<LayerGraph>(scenario.model),
            layers_of(gpt2, {.flops_per_second = 2e9, .efficiency = 0.5}));
  ASSERT_EQ(scenario.notes.size(), 1);
  EXPECT_NE(scenario.notes[0].find("0.1244 billion parameters"), std::string::npos) << scenario.notes[0];
}

TEST(HuggingFaceModel, TakesTheOtherKeysFromTheScenario) {
  const Scenario scenario = read_scenario(
      "model: {huggingface: parts/config.json, efficiency: 0.5, sequence: 256, recompute: full, "
      "tensor_parallel: 3, tensor_bandwidth: 1 GB/s}\n" +
      kRest);
  const TransformerShape gpt2{.layers = 12,
                              .hidden = 768,
                              .heads = 12,
                              .sequence = 256,
                              .vocabulary = 50257,
                              .feed_forward = 3072,
                              .tensor_parallel = 3,
                              .recompute = BlockRecompute::full};
  EXPECT_EQ(std::get<LayerGraph>(scenario.model),
            layers_of(gpt2, {.flops_per_second = 2e9, .efficiency = 0.5, .tensor_bytes_per_second = 1e9}));
}

TEST(HuggingFaceModel, KeepsItsFirstLayers) {
  const Scenario scenario =
      read_scenario("model: {huggingface: parts/config.json, efficiency: 0.5, layers: 3}\n" + kRest);
  const auto& graph = std::get<LayerGraph>(scenario.model);
  ASSERT_EQ(graph.layers.size(), 5) << "embedding, three blocks, head";
  EXPECT_EQ(graph.layers[3].name, "block2");
}

TEST(HuggingFaceModel, IsPricedWithoutWhatIsIgnoredAndSaysSo) {
  const Scenario scenario = read_scenario(
      "model: {huggingface: parts/config.json, efficiency: 0.5, ignore: task_specific_params}\n" + kRest);
  ASSERT_EQ(scenario.notes.size(), 2);
  EXPECT_EQ(scenario.notes[1], "parts/config.json is priced as if it had no task_specific_params (ignore)");
}

}  // namespace
}  // namespace penstock
