// What a plan of PipeDream's partitioner says, and its corner cases.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/pipedream_partition.hpp"
#include "scenarios/partition/plan_options.hpp"
#include "scenarios/read/pipedream_profile.hpp"
#include "schedules/ir/action.hpp"
#include "tests/scenarios/library_model.hpp"
#include "tests/scenarios/planned_pipeline.hpp"

namespace penstock {
namespace {

/// A layer that is cheap to replicate, then one that is not; nothing to send between them.
LayerGraph light_then_heavy() {
  LayerGraph graph = chain({30, 10});
  graph.layers[0].output = graph.layers[0].weights = 0;
  graph.layers[1].weights = 1000;
  return graph;
}

// 30 on three devices and 10 on one: a minibatch each 10 on both. In flight is what a device's part of all
// devices from its stage on comes to, rounded up: 4 / 3 and 1 / 1.
TEST(PipelinePlan, CountsMinibatchesInFlightAsTheSchedulesWarmUpDoes) {
  const PipelinePlan plan = planned(light_then_heavy(), {{.components = 4, .bytes_per_second = 1e9}});
  EXPECT_EQ(replicas_of(plan), (std::vector<std::size_t>{3, 1}));
  EXPECT_EQ(in_flight_of(plan), (std::vector<std::int32_t>{2, 1}));  // warm-up (1, 0)
  EXPECT_DOUBLE_EQ(plan.period_ns, 10);
  EXPECT_EQ(in_flight_of(planned(chain({10, 10, 10, 10}), {{.components = 4, .bytes_per_second = kUnlimited}},
                                 {.form = PlanForm::straight})),
            (std::vector<std::int32_t>{4, 3, 2, 1}));
}

TEST(PipelinePlan, KeepsAMinibatchInsideOneComponentOfATwoLevelCluster) {
  // Two servers of 4 devices, of which each runs 3-1 inside: minibatch g stays on server g % 2.
  const PipelinePlan plan = planned(light_then_heavy(), {{.components = 4, .bytes_per_second = 1e9},
                                                         {.components = 2, .bytes_per_second = kUnlimited}});
  ASSERT_EQ(replicas_of(plan), (std::vector<std::size_t>{6, 2}));
  EXPECT_EQ(plan.stages[0].devices, (std::vector<std::int32_t>{0, 4, 1, 5, 2, 6}));
  EXPECT_EQ(plan.stages[1].devices, (std::vector<std::int32_t>{3, 7}));
  EXPECT_DOUBLE_EQ(plan.period_ns, 5);
}

TEST(PipelinePlan, TakesOneReplicatedStageWhereSplittingGainsNothing) {
  EXPECT_EQ(replicas_of(planned(chain({30, 10}), {{.components = 4, .bytes_per_second = kUnlimited}})),
            (std::vector<std::size_t>{4}));
}

TEST(PipelinePlan, SendsTheBytesOfThePapersExamples) {
  // VGG-16 on 4 with 64 samples (half the profile's): 12.971 MB a sample data-parallel, 1.427 MB in 3-1 with
  // the cut in front of the first fully connected layer (node35).
  const LayerGraph vgg = library_model("vgg16");
  PlannedStage all{.layers = {}, .devices = {0, 1, 2, 3}};
  PlannedStage convolutions{.layers = {}, .devices = {0, 1, 2}};
  PlannedStage rest{.layers = {}, .devices = {3}};
  for (std::size_t layer = 0; layer < vgg.layers.size(); ++layer) {
    all.weights += vgg.layers[layer].weights;
    (layer < 33 ? convolutions : rest).weights += vgg.layers[layer].weights;
  }
  convolutions.cut = vgg.layers[32].output / 2;
  EXPECT_NEAR(bytes_per_minibatch({.period_ns = 0, .stages = {all}}) / 64, 12.971e6, 500);
  EXPECT_NEAR(bytes_per_minibatch({.period_ns = 0, .stages = {convolutions, rest}}) / 64, 1.427e6, 1000);
}

// --- corner cases ---------------------------------------------------------------------------------------

TEST(PipelinePlan, ReplicatesASingleLayer) {
  const PipelinePlan plan = planned(chain({12}), {{.components = 4, .bytes_per_second = kUnlimited}});
  EXPECT_EQ(replicas_of(plan), (std::vector<std::size_t>{4}));
  EXPECT_EQ(plan.stages.front().layers, (std::vector<std::int32_t>{0}));
  EXPECT_DOUBLE_EQ(plan.period_ns, 3);
}

TEST(PipelinePlan, PutsAllLayersOnASingleDevice) {
  for (const PlanForm form : {PlanForm::replicated, PlanForm::straight}) {
    const PipelinePlan plan =
        planned(chain({4, 5, 6}), {{.components = 1, .bytes_per_second = 1}}, {.form = form});
    ASSERT_EQ(replicas_of(plan), (std::vector<std::size_t>{1}));
    const PlannedStage& stage = plan.stages.front();
    EXPECT_EQ(stage.layers, (std::vector<std::int32_t>{0, 1, 2}));
    EXPECT_EQ(stage.in_flight, 1);
    EXPECT_EQ(stage.cut, 0);
    EXPECT_EQ(stage.held, 3 * 100 + 2 * 3 * 10);  // outputs; weights and gradients
    EXPECT_DOUBLE_EQ(plan.period_ns, 15);
    EXPECT_EQ(bytes_per_minibatch(plan), 0);
  }
}

TEST(PipelinePlan, TakesASingleLayerOnASingleDevice) {
  EXPECT_DOUBLE_EQ(planned(chain({12}), {{.components = 1, .bytes_per_second = 1}}).period_ns, 12);
}

TEST(PipelinePlan, MakesNoStageOfTheNodesThatLoadData) {
  // AlexNet of the library: 22 layers after its Input, 4 stages that all compute.
  const LayerGraph alexnet = library_model("alexnet");
  ASSERT_EQ(alexnet.layers.size(), 22);
  const PipelinePlan plan =
      planned(alexnet, {{.components = 4, .bytes_per_second = kUnlimited}}, {.form = PlanForm::straight});
  ASSERT_EQ(plan.stages.size(), 4);
  for (const PlannedStage& stage : plan.stages) EXPECT_GT(stage.compute_ns, 0);
  // As many stages as nodes would need one of Input alone.
  const auto graph = parse_pipedream_profile(
      "node1 -- Input0 -- forward_compute_time=0, backward_compute_time=0, activation_size=9, "
      "parameter_size=0\n"
      "node2 -- Linear(a) -- forward_compute_time=1, backward_compute_time=2, activation_size=3, "
      "parameter_size=4\n"
      "node3 -- Linear(b) -- forward_compute_time=1, backward_compute_time=2, activation_size=3, "
      "parameter_size=4\n"
      "\tnode1 -- node2\n\tnode2 -- node3\n",
      "graph.txt");
  ASSERT_TRUE(graph) << graph.error();
  EXPECT_EQ(replicas_of(planned(*graph, {{.components = 3, .bytes_per_second = kUnlimited}},
                                {.form = PlanForm::straight})),
            (std::vector<std::size_t>{1, 1}));
}

TEST(PipelinePlan, LeavesWorkersIdleInAStraightPipelineOfFewerLayers) {
  const PlanOptions straight{.form = PlanForm::straight};
  const PipelinePlan one_level =
      planned(chain({4, 5, 6}), {{.components = 8, .bytes_per_second = kUnlimited}}, straight);
  EXPECT_EQ(replicas_of(one_level), (std::vector<std::size_t>{1, 1, 1}));
  EXPECT_DOUBLE_EQ(one_level.period_ns, 6);
  const PipelinePlan two_levels = planned(
      chain({4, 5, 6}),
      {{.components = 4, .bytes_per_second = kUnlimited}, {.components = 2, .bytes_per_second = kUnlimited}},
      straight);
  EXPECT_EQ(replicas_of(two_levels), (std::vector<std::size_t>{1, 1, 1}));
}

TEST(PipelinePlan, KeepsAShortStraightPipelineOnOneServer) {
  const PipelinePlan plan =
      planned(chain({4, 5}),
              {{.components = 4, .bytes_per_second = kUnlimited}, {.components = 2, .bytes_per_second = 1}},
              {.form = PlanForm::straight});
  ASSERT_EQ(plan.stages.size(), 2);
  EXPECT_EQ(plan.stages[1].devices, (std::vector<std::int32_t>{1}));
  EXPECT_DOUBLE_EQ(plan.period_ns, 5);
}

// 10 / 1 and 50 / 5, or both layers on all six devices: 60 / 6.
TEST(PipelinePlan, SharesMoreWorkersThanLayersAmongTheLayers) {
  const PipelinePlan plan = planned(chain({10, 50}), {{.components = 6, .bytes_per_second = kUnlimited}});
  const std::vector<std::size_t> replicas = replicas_of(plan);
  EXPECT_EQ(std::accumulate(replicas.begin(), replicas.end(), std::size_t{0}), 6);
  EXPECT_DOUBLE_EQ(plan.period_ns, 10);
}

TEST(PipelinePlan, NamesALayerThatFitsNowhere) {
  LayerGraph graph = chain({1, 2, 3});
  graph.layers[1].weights = 4000;
  EXPECT_EQ(
      refusal(graph, {{.components = 8, .bytes_per_second = 1e9}}, {.memory_limit = 5000}),
      "the layer l1 is larger than a device: alone and with one minibatch in flight it needs 8100 bytes "
      "(activations 100, weights 4000, gradients 4000, optimizer state 0), a device has 5000; take a "
      "smaller minibatch, split the layer, or take devices with more memory");
}

TEST(PipelinePlan, RefusesWhatFitsOnlyLayerByLayer) {
  EXPECT_EQ(refusal(chain({1, 2, 3}), {{.components = 2, .bytes_per_second = 1e9}}, {.memory_limit = 130}),
            "no plan keeps what a device holds within 130 bytes, though each layer fits one alone; take a "
            "smaller minibatch, more devices, or devices with more memory");
}

TEST(PipelinePlan, TakesAGraphThatIsNotConnected) {
  // Two chains of two layers that share nothing: each is a stage, and nothing crosses the cut.
  LayerGraph graph = chain({3, 4, 5, 2});
  graph.layers[2].inputs = {};
  const PipelinePlan plan = planned(graph, {{.components = 2, .bytes_per_second = 1e3}});
  EXPECT_DOUBLE_EQ(plan.period_ns, 7);
  ASSERT_EQ(plan.stages.size(), 2);
  EXPECT_EQ(plan.stages[0].cut, 0);
}

TEST(PipelinePlan, PutsLayersThatCostNothingIntoTheFirstStage) {
  LayerGraph graph = chain({3, 0, 5});
  graph.layers[1] = {
      .name = "handle", .forward_ns = 0, .backward_ns = 0, .output = 0, .weights = 0, .inputs = {}};
  graph.layers[2].inputs = {0, 1};
  const PipelinePlan plan =
      planned(graph, {{.components = 2, .bytes_per_second = kUnlimited}}, {.form = PlanForm::straight});
  ASSERT_EQ(plan.stages.size(), 2);
  EXPECT_EQ(plan.stages[0].layers, (std::vector<std::int32_t>{0, 1}));
}

TEST(PipelinePlan, TakesLayersOfWhichNoneCostsAnything) {
  LayerGraph graph = chain({0, 0});
  for (Layer& layer : graph.layers) layer.output = layer.weights = 0;
  const PipelinePlan plan = planned(graph, {{.components = 2, .bytes_per_second = 1e9}});
  EXPECT_EQ(plan.period_ns, 0);
}

// Twenty layers that read nothing: 2^20 sets of them, each of which a pipeline may have run.
TEST(PipelinePlan, RefusesAGraphThatIsTooWide) {
  LayerGraph graph = chain(std::vector<Ns>(20, 1));
  for (Layer& layer : graph.layers) layer.inputs = {};
  const std::string message = refusal(graph, {{.components = 2, .bytes_per_second = 1e9}}, {});
  EXPECT_NE(message.find("more than 4096 downsets"), std::string::npos) << message;
}

TEST(PipelinePlan, PlansAChainOfFiveThousandLayers) {
  const LayerGraph graph = chain(std::vector<Ns>(5000, 3));
  const PipelinePlan plan = planned(graph, {{.components = 4, .bytes_per_second = kUnlimited}},
                                    {.form = PlanForm::straight, .transfers = CutTransfers::free});
  EXPECT_DOUBLE_EQ(plan.period_ns, 3 * 1250);
  ASSERT_EQ(plan.stages.size(), 4);
  for (const PlannedStage& stage : plan.stages) EXPECT_EQ(stage.layers.size(), 1250);
}

TEST(PipelinePlan, RefusesAChainForItsLengthAlone) {
  EXPECT_EQ(refusal(chain(std::vector<Ns>(8192, 1)), {{.components = 2, .bytes_per_second = 1e9}}, {}),
            "the model has 8192 layers, too many to plan over: expected at most 8191; merge neighbouring "
            "layers into one, or take partition: balanced or a list of cuts");
}

// (20 + 3 + 3) / 2 on two replicas of one stage; 10 + 3 + 3 on each of two stages.
TEST(PipelinePlan, AddsTheOverheadOfEveryForwardAndBackward) {
  LayerGraph graph = chain({10, 10});
  graph.overhead_ns = 3;
  EXPECT_DOUBLE_EQ(planned(graph, {{.components = 2, .bytes_per_second = kUnlimited}}).period_ns, 13);
}

}  // namespace
}  // namespace penstock
