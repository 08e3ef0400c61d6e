// Tests the search for configurations on groups of unlike devices. Slow methods give the expected answers:
// all configurations of a small space are simulated one by one.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/result/result.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/schedule_outline.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "sim/choose/configuration.hpp"
#include "sim/choose/configuration_figures.hpp"
#include "sim/choose/configuration_prices.hpp"
#include "sim/choose/launchers.hpp"
#include "sim/choose/tune.hpp"
#include "sim/choose/tuning_space.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/sim/tune_request.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

using testing::Contains;
using testing::HasSubstr;

/// Returns a request for eight layers of a model of 70 billion parameters on these groups of devices.
TuneRequest on_groups(const std::string& groups, std::int64_t global_batch_size = 16) {
  TuneRequest request = tune_request(
      "model: {huggingface: llama-3.1-70b.json, sequence: 4096, layers: 8}\ncluster: " + groups + "\n",
      global_batch_size);
  request.choices.recompute = {LayerRecompute::none};
  request.choices.sharding = {0, 1};
  request.choices.context = {1};
  return request;
}

/// Sixteen fast devices and sixteen slow ones. Half of the slow devices' memory is in use elsewhere.
constexpr std::string_view kMixed =
    "{groups: [{device: h100-sxm, nodes: 2}, {device: a100-sxm, nodes: 2, memory: 40 GiB}]}";

bool fits(const Result& result) { return !any_out_of_memory(result); }

/// Returns the smallest free memory of any rank.
Bytes least_free(const Result& result) {
  Bytes least = std::numeric_limits<Bytes>::max();
  for (const RankReport& rank : result.ranks)
    least = std::min(least, *rank.memory.capacity - rank.memory.reserved - rank.memory.peak_bytes);
  return least;
}

TEST(GroupTuning, TheSpaceHasBothOrdersAndWholeRanks) {
  const TuneRequest request =
      on_groups("{groups: [{device: h100-sxm, nodes: 2}, {device: a100-sxm, nodes: 4}]}");
  const auto space = tuning_space(request);
  ASSERT_TRUE(space) << space.error();
  std::set<GroupOrder> orders;
  for (const Configuration& of : *space) {
    orders.insert(of.group_order);
    EXPECT_EQ(of.nodes, 6);
    EXPECT_EQ(device_count(of), 48);
    EXPECT_EQ(16 % (of.tensor * of.context * of.data), 0);
    EXPECT_GE(of.stages, 3);
    EXPECT_EQ(of.order, PlacementOrder::tp_cp_ep_dp_pp);
  }
  EXPECT_EQ(orders, (std::set{GroupOrder::stated, GroupOrder::reversed}));
  TuneRequest stated = request;
  stated.choices.group_order = {GroupOrder::reversed};
  const auto half = tuning_space(stated);
  ASSERT_TRUE(half) << half.error();
  EXPECT_EQ(2 * half->size(), space->size());
}

TEST(GroupTuning, BoundsAreNeverAboveTheTruth) {
  TuneRequest request = on_groups(std::string(kMixed));
  request.schedules = {"1f1b", "interleaved", "zb-h1", "zb-v", "gpipe"};
  request.choices.stages = {2, 4};
  const auto space = tuning_space(request);
  ASSERT_TRUE(space) << space.error();
  ConfigurationPrices prices(request);
  ProgramLibrary programs(request);
  std::size_t tight = 0;
  for (const Configuration& of : *space) {
    const ScheduleOutline& outline = **programs.outline(of);
    const auto quick = prices.quick_bounds(of, outline);
    ASSERT_TRUE(quick);
    const PricedConfiguration priced = prices.of(of, outline);
    const LowerBounds bounds = lower_bounds(priced, outline, of.microbatches);
    ASSERT_LE(quick->step_ns, bounds.step_ns) << of.schedule << " " << of.stages << " " << of.layer_split;
    ASSERT_LE(quick->peak_bytes, bounds.peak_bytes)
        << of.schedule << " " << of.stages << " " << of.layer_split;
    const auto program = programs.program(of);
    ASSERT_TRUE(program) << program.error();
    const Ns step_ns = step_times(**program, {&priced, 1}).front();
    ASSERT_LE(bounds.step_ns, step_ns) << of.schedule << " " << of.stages;
    ASSERT_LE(bounds.peak_bytes, peak_bytes(**program, {&priced, 1}).front());
    if (5 * quick->step_ns > 4 * bounds.step_ns) ++tight;
  }
  EXPECT_GT(tight, space->size() / 3);
}

/// Returns the shortest step of all configurations that fit in memory, each simulated by itself.
Ns shortest_step(const TuneRequest& request) {
  const auto space = tuning_space(request);
  EXPECT_TRUE(space) << space.error();
  Ns least = std::numeric_limits<Ns>::max();
  std::size_t fitting = 0;
  for (const Configuration& of : *space) {
    const Result result = simulated_configuration(request, of);
    if (!fits(result)) continue;
    ++fitting;
    least = std::min(least, result.makespan_ns);
  }
  EXPECT_GT(fitting, 0U);
  EXPECT_LT(fitting, space->size()) << "the limit of the slow devices rules some out";
  return least;
}

TEST(GroupTuning, TheBestIsThatOfSimulatingEveryConfiguration) {
  TuneRequest request = on_groups(std::string(kMixed));
  request.schedules = {"1f1b", "interleaved"};
  request.choices.stages = {2, 4};
  request.layer_splits = {{.rule = LayerSplit::Rule::even}, {.rule = LayerSplit::Rule::ends_one_less}};
  const auto stated = tune(request, {.top = 10});
  ASSERT_TRUE(stated) << stated.error().message;
  EXPECT_TRUE(stated->candidates.front().fits);
  EXPECT_EQ(stated->candidates.front().step_ns, shortest_step(request));

  // The search of tune may find better layers than simulate() finds for one configuration.
  request.layer_splits = {{.rule = LayerSplit::Rule::balanced}};
  const auto balanced = tune(request, {.top = 10});
  ASSERT_TRUE(balanced) << balanced.error().message;
  EXPECT_TRUE(balanced->candidates.front().fits);
  EXPECT_LE(balanced->candidates.front().step_ns, shortest_step(request));
  EXPECT_LT(balanced->candidates.front().step_ns, stated->candidates.front().step_ns);
}

TEST(GroupTuning, FiguresAreThoseOfSimulateWithTheMemoryOfEachRank) {
  const TuneRequest request = on_groups(
      "{groups: [{device: h100-sxm, nodes: 2, memory: 16 GiB}, {device: a100-sxm, nodes: 2, memory: 12 "
      "GiB}]}");
  const auto report = tune(request, {.top = 10});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_FALSE(report->usable);
  std::set<bool> fit;
  std::set<Bytes> limits;
  for (const TunedConfiguration& tuned : report->candidates) {
    if (tuned.constructed) continue;
    const Result result = simulated_configuration(request, tuned);
    EXPECT_EQ(tuned.step_ns, result.makespan_ns);
    EXPECT_EQ(tuned.fits, fits(result));
    ASSERT_TRUE(tuned.usable_bytes);
    EXPECT_EQ(*tuned.usable_bytes - tuned.peak_bytes, least_free(result));
    EXPECT_NEAR(tuned.mfu, result.throughput.model->mfu, 1e-12);
    EXPECT_NEAR(tuned.tokens_per_second_per_device, result.throughput.model->tokens_per_second_per_device,
                1e-6);
    fit.insert(tuned.fits);
    limits.insert(*tuned.usable_bytes);
  }
  EXPECT_EQ(fit.size(), 2U) << "some configurations fit, and some do not";
  EXPECT_EQ(limits.size(), 2U) << "the fullest rank is of either kind";
}

TEST(GroupTuning, AnExhaustiveSearchHasTheSameBest) {
  TuneRequest request = on_groups(std::string(kMixed));
  request.choices.stages = {2, 4};
  const auto pruned = tune(request, {.top = 5});
  const auto whole = tune(request, {.top = 5, .prune = false});
  ASSERT_TRUE(pruned) << pruned.error().message;
  ASSERT_TRUE(whole) << whole.error().message;
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(pruned->candidates[i].configuration, whole->candidates[i].configuration);
    EXPECT_EQ(pruned->candidates[i].step_ns, whole->candidates[i].step_ns);
  }
  EXPECT_LT(pruned->evaluated, whole->evaluated);
}

// Stages of whole nodes send over the network in both clusters.
TEST(GroupTuning, GroupsOfOneDeviceHaveTheBestTimeOfOneGroup) {
  TuneRequest two = on_groups("{groups: [{device: h100-sxm, nodes: 2}, {device: h100-sxm, nodes: 2}]}");
  TuneRequest one = on_groups("{device: h100-sxm, nodes: 4}");
  for (TuneRequest* request : {&one, &two}) {
    request->choices.stages = {2, 4};
    request->choices.order = {PlacementOrder::tp_cp_ep_dp_pp};
  }
  const auto space = tuning_space(two);
  ASSERT_TRUE(space) << space.error();
  EXPECT_EQ(space->size(), tuning_space(one)->size()) << "a reversed order of equal groups is the same";
  const auto of_two = tune(two, {.top = 5});
  const auto of_one = tune(one, {.top = 5});
  ASSERT_TRUE(of_two) << of_two.error().message;
  ASSERT_TRUE(of_one) << of_one.error().message;
  EXPECT_EQ(of_two->candidates.front().step_ns, of_one->candidates.front().step_ns);
  EXPECT_EQ(of_two->candidates.front().configuration, of_one->candidates.front().configuration);
  EXPECT_EQ(of_two->candidates.front().mfu, of_one->candidates.front().mfu);
}

TEST(GroupTuning, TheScenarioReadsBackAsTheConfiguration) {
  for (const std::string_view stated : {"stated", "reversed"}) {
    const std::string cluster =
        std::string(kMixed.substr(0, kMixed.size() - 1)) + ", group_order: " + std::string(stated) + "}";
    TuneRequest request = on_groups(cluster);
    const auto space = tuning_space(request);
    ASSERT_TRUE(space) << space.error();
    for (std::size_t i = 0; i < space->size(); i += space->size() / 20) {
      const Configuration& of = (*space)[i];
      std::vector<Override> overrides = {
          {.key = "model",
           .value = "{huggingface: " + source_path("tests/scenarios/configs/llama-3.1-70b.json") +
                    ", sequence: 4096, layers: 8}"},
          {.key = "cluster", .value = cluster}};
      for (Override& change : overrides_of(request, of)) overrides.push_back(std::move(change));
      const auto text = edited_scenario("", overrides);
      ASSERT_TRUE(text) << text.error();
      const auto scenario = parse_scenario(*text, "best.yaml", "/");
      ASSERT_TRUE(scenario) << scenario.error() << "\n" << *text;
      EXPECT_EQ(scenario->cluster.group_order, of.group_order);
      const auto result = simulate_scenario(*scenario, {});
      ASSERT_TRUE(result) << result.error().message << "\n" << *text;
      const Result expected = simulated_configuration(request, of);
      EXPECT_EQ(result->makespan_ns, expected.makespan_ns) << *text;
      EXPECT_EQ(least_free(*result), least_free(expected)) << *text;
    }
  }
}

TEST(GroupTuning, RefusalsSayWhatToChange) {
  TuneRequest nodes = on_groups(std::string(kMixed));
  nodes.nodes = {1, 2};
  EXPECT_THAT(tuning_space(nodes).error(),
              HasSubstr("leave --max-nodes out, or change the nodes of a group"));
  TuneRequest order = on_groups(std::string(kMixed));
  order.choices.order = {PlacementOrder::tp_cp_ep_pp_dp};
  EXPECT_THAT(tuning_space(order).error(), HasSubstr("expected the order tp-cp-ep-dp-pp for cluster.groups"));
  TuneRequest whole = on_groups(std::string(kMixed));
  whole.choices.stages = {1};
  EXPECT_THAT(tuning_space(whole).error(), HasSubstr("32 devices (16 x h100-sxm + 16 x a100-sxm): "));
  EXPECT_THAT(tuning_space(whole).error(), HasSubstr("which do not divide the 16 of h100-sxm"));
}

/// Returns the arguments for Megatron-LM of the request's best configuration.
std::string launched(TuneRequest request) {
  request.launcher = Launcher::megatron;
  request.choices.stages = {2};
  const auto report = tune(request, {.top = 1});
  if (!report) return report.error().message;
  const TunedConfiguration& best = report->candidates.front();
  return launch_arguments(Launcher::megatron, with_layers(request, best.configuration, best.layers),
                          best.configuration);
}

TEST(GroupTuning, MegatronIsToldTheOrderOfTheNodes) {
  TuneRequest request = on_groups(std::string(kMixed));
  request.choices.group_order = {GroupOrder::reversed};
  EXPECT_THAT(launched(request),
              HasSubstr("start torchrun with --node-rank so that these are a100-sxm on nodes "
                        "0 to 1, h100-sxm on nodes 2 to 3"));
  request.choices.group_order = {GroupOrder::stated};
  EXPECT_THAT(launched(request), HasSubstr("h100-sxm on nodes 0 to 1, a100-sxm on nodes 2 to 3"));
}

TEST(GroupTuning, LaunchersCannotRunNodesOfUnlikeSizesOrMakers) {
  EXPECT_THAT(
      launched(on_groups("{groups: [{device: h100-sxm, nodes: 1}, {device: gb200, nodes: 2}]}")),
      HasSubstr("torchrun starts equally many processes on all nodes, and a node has 8 h100-sxm but 4 "
                "gb200"));
  EXPECT_THAT(launched(on_groups("{groups: [{device: h100-sxm, nodes: 2}, {device: mi300x, nodes: 2}]}")),
              HasSubstr("no library of collectives joins h100-sxm of NVIDIA and mi300x of AMD"));
}

}  // namespace
}  // namespace penstock
