// Plans beside their simulations: where nothing is left out of the recurrence both agree, where something
// is, the simulation says what it costs.

#include "sim/plan_evaluation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "scenarios/load.hpp"
#include "scenarios/plan_options.hpp"
#include "scenarios/scenario.hpp"

namespace penstock {
namespace {

Scenario read(const std::string& text) {
  auto scenario = parse_scenario(text, "s.yaml", PENSTOCK_SOURCE_DIR "/scenarios/library/models");
  EXPECT_TRUE(scenario) << scenario.error();
  return scenario.value_or(Scenario{});
}

PlanEvaluation evaluated(const std::string& text, const PlanOptions& options = {}) {
  auto evaluation = evaluate_plan(read(text), options);
  EXPECT_TRUE(evaluation) << evaluation.error();
  return evaluation.value_or(PlanEvaluation{});
}

const std::string kFourLayers =
    "model: {layers: [{name: a, forward: 1 ms, backward: 2 ms, output: 1 MB}, {name: b, forward: 1 ms, "
    "backward: 2 ms, output: 1 MB}, {name: c, forward: 1 ms, backward: 2 ms, output: 1 MB}, {name: d, "
    "forward: 1 ms, backward: 2 ms}]}\n";

TEST(PlanEvaluation, SimulatesWhatTheRecurrencePredictsOverFreeLinks) {
  const PlanEvaluation plan =
      evaluated(kFourLayers + "cluster: {preset: uniform, devices: 4}\n", {.form = PlanForm::straight});
  EXPECT_EQ(plan.configuration(), "1-1-1-1");
  EXPECT_DOUBLE_EQ(plan.planned.plan.period_ns, 3e6);
  EXPECT_NEAR(plan.simulated_period_ns, 3e6, 1e-3);
}

TEST(PlanEvaluation, ShowsTheLatencyThatTheRecurrenceLeavesOut) {
  // PipeDream, Fig. 18's setting: period 3 + 1.5 c for a one-way latency c = 0.25 at the paper's depth.
  const PlanEvaluation plan =
      evaluated(kFourLayers + "cluster: {preset: uniform, devices: 4, latency: 250 us}\n",
                {.form = PlanForm::straight});
  EXPECT_DOUBLE_EQ(plan.planned.plan.period_ns, 3e6);
  EXPECT_NEAR(plan.simulated_period_ns, 3.375e6, 1e-3);
}

TEST(PlanEvaluation, SendsMoreThanDataParallelismInResNet50s2By2) {
  // 2.81 against 1.20 MB a sample on 4 GPUs with 128 samples each (computed from the published profile).
  const PlanEvaluation plan = evaluated(
      "model: resnet50.yaml\ncluster: {preset: uniform, devices: 4, bandwidth: 1 GB/s}\n"
      "training: {micro_batch_size: 128}\n",
      {.objective = PlanObjective::sum});
  EXPECT_EQ(plan.configuration(), "2-2");
  EXPECT_NEAR(plan.bytes_per_sample, 2.81e6, 5e3);
  EXPECT_NEAR(plan.data_parallel_bytes_per_sample, 1.20e6, 5e3);
}

TEST(PlanEvaluation, SaysThatBuffersBesideWhatIsPlannedDoNotFit) {
  const PlanOptions kStraight{.form = PlanForm::straight};
  // Held by the plan: 2 activations of 1 MB on the first device. Simulated, messages need room as well.
  const std::string model =
      "model: {layers: [{name: a, forward: 1 ms, backward: 2 ms, output: 1 MB}, {name: b, forward: 1 ms, "
      "backward: 2 ms}]}\n";
  const PlanEvaluation tight = evaluated(
      model + "cluster: {preset: uniform, devices: 2, bandwidth: 1 GB/s, memory: 2 MB}\n", kStraight);
  EXPECT_TRUE(tight.out_of_memory);
  const PlanEvaluation roomy = evaluated(
      model + "cluster: {preset: uniform, devices: 2, bandwidth: 1 GB/s, memory: 9 MB}\n", kStraight);
  EXPECT_FALSE(roomy.out_of_memory);
}

TEST(PlanEvaluation, TakesTheMeanWhereNoExactPeriodIsFound) {
  // Replicas of 3 and 6 whose reductions and transfers fall in and out of step for very long.
  const PlanEvaluation plan = evaluated(
      "model: {layers: [{name: a, forward: 1497 us, backward: 7385 us, output: 7804 kB, weights: 31596 kB}, "
      "{name: b, forward: 0 us, backward: 3101 us, output: 2635 kB}]}\n"
      "cluster: {preset: two-level, nodes: 3, devices_per_node: 3, intra_bandwidth: 12340 MB/s, "
      "inter_bandwidth: 1291 MB/s}\ntraining: {micro_batch_size: 4, optimizer: adam}\n");
  EXPECT_EQ(plan.configuration(), "3-6");
  ASSERT_EQ(plan.notes.size(), 1);
  EXPECT_EQ(plan.notes.front().find("no exact period was found"), 0) << plan.notes.front();
  // The recurrence sends activations and gradients one after the other, the links both at once.
  EXPECT_GE(plan.simulated_period_ns, 7804e3 / 1.291);
  EXPECT_LE(plan.simulated_period_ns, plan.planned.plan.period_ns);
}

TEST(PlanEvaluation, RefusesWhatCannotBePlanned) {
  const auto refused = evaluate_plan(read(kFourLayers), {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(),
            "cluster.devices is missing: expected the number of devices to plan for, got nothing");
}

// --- the front ------------------------------------------------------------------------------------------

bool is_better_in_all(const PlanEvaluation& a, const PlanEvaluation& b) {
  return a.samples_per_second() > b.samples_per_second() && a.peak_bytes() < b.peak_bytes() &&
         a.device_hours_per_million_samples() < b.device_hours_per_million_samples();
}

TEST(PlanFront, HoldsNoPlanThatAnotherBeats) {
  const Scenario scenario = read(
      "model: vgg16.yaml\ncluster: {preset: pipedream-a, nodes: 2}\n"
      "training: {micro_batch_size: 32, optimizer: momentum}\n");
  const std::vector<PlanEvaluation> front = plan_front(scenario, {});
  ASSERT_GT(front.size(), 2);
  EXPECT_EQ(front.front().devices(), 1);
  for (const PlanEvaluation& a : front) {
    EXPECT_FALSE(a.out_of_memory);
    for (const PlanEvaluation& b : front) EXPECT_FALSE(is_better_in_all(a, b)) << a.configuration();
  }
  EXPECT_TRUE(std::ranges::is_sorted(front, {}, &PlanEvaluation::devices));
}

TEST(PlanFront, HasOnePlanWhereMoreDevicesDoNotHelp) {
  // One layer whose reduction takes far longer than its compute: a device alone is as fast as any number.
  const std::vector<PlanEvaluation> front =
      plan_front(read("model: {layers: [{name: a, forward: 1 us, backward: 1 us, weights: 1 GB}]}\n"
                      "cluster: {preset: uniform, devices: 8, bandwidth: 1 GB/s}\n"),
                 {});
  ASSERT_EQ(front.size(), 1);
  EXPECT_EQ(front.front().devices(), 1);
}

TEST(PlanFront, CountsDeviceHours) {
  const std::vector<PlanEvaluation> front =
      plan_front(read("model: {layers: [{name: a, forward: 12 ms, backward: 24 ms}]}\n"
                      "cluster: {preset: uniform, devices: 2}\n"),
                 {});
  ASSERT_EQ(front.size(), 1);  // two are twice as fast for the same device-hours: 36 ms a sample
  EXPECT_EQ(front.front().devices(), 2);
  EXPECT_NEAR(front.front().device_hours_per_million_samples(), 10, 1e-9);
}

}  // namespace
}  // namespace penstock
