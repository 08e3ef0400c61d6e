// Plans beside their simulations: where nothing is left out of the recurrence both agree, where something
// is, the simulation says what it costs.

#include "sim/planning/plan_evaluation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "scenarios/partition/plan_options.hpp"
#include "scenarios/read/scenario.hpp"
#include "tests/sim/plan_scenarios.hpp"

namespace penstock {
namespace {

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
  const PlanOptions straight{.form = PlanForm::straight};
  // Held by the plan: 2 activations of 1 MB on the first device. Simulated, messages need room as well.
  const std::string model =
      "model: {layers: [{name: a, forward: 1 ms, backward: 2 ms, output: 1 MB}, {name: b, forward: 1 ms, "
      "backward: 2 ms}]}\n";
  const PlanEvaluation tight = evaluated(
      model + "cluster: {preset: uniform, devices: 2, bandwidth: 1 GB/s, memory: 2 MB}\n", straight);
  EXPECT_TRUE(tight.out_of_memory);
  const PlanEvaluation roomy = evaluated(
      model + "cluster: {preset: uniform, devices: 2, bandwidth: 1 GB/s, memory: 9 MB}\n", straight);
  EXPECT_FALSE(roomy.out_of_memory);
}

TEST(PlanEvaluation, TakesTheMeanWhereNoExactPeriodIsFound) {
  // Replicas of 3 and 6 whose reductions and transfers fall in and out of step for very long.
  const PlanEvaluation plan = evaluated(
      "model: {layers: [{name: a, forward: 1497 us, backward: 7385 us, output: 7804 kB, weights: 31596 kB}, "
      "{name: b, forward: 0 us, backward: 3101 us, output: 2635 kB}]}\n"
      "cluster: {preset: two-level, nodes: 3, devices_per_node: 3, intra_bandwidth: 12340 MB/s, "
      "inter_bandwidth: 1291 MB/s}\ntraining: {micro_batch_size: 4, optimizer: adam}\n",
      {.objective = PlanObjective::maximum_printed});
  EXPECT_EQ(plan.configuration(), "3-6");
  ASSERT_EQ(plan.notes.size(), 1);
  EXPECT_EQ(plan.notes.front().find("the stream shows no period"), 0) << plan.notes.front();
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

TEST(PlanFront, PricesAllItsPlans) {
  const std::vector<PlanEvaluation> front = plan_front(
      read("model: {layers: [{name: a, forward: 10 ms, backward: 20 ms, output: 1 MB, weights: 1 MB}, "
           "{name: b, forward: 4 ms, backward: 6 ms, weights: 400 MB}]}\n"
           "cluster: {preset: uniform, devices: 4, bandwidth: 8 GB/s, price: 2.5}\n"),
      {});
  ASSERT_GT(front.size(), 1);
  EXPECT_LT(front.front().devices(), 4);
  for (const PlanEvaluation& plan : front) {
    ASSERT_TRUE(plan.cost_per_million_samples()) << plan.configuration();
    EXPECT_DOUBLE_EQ(*plan.cost_per_million_samples(), 2.5 * plan.device_hours_per_million_samples());
  }
}

TEST(PlanFront, CountsAllDevicesOfATensorGroup) {
  const std::string cluster = "cluster: {preset: dgx-h100, devices_per_node: 2, price: 2}\n";
  const auto front_of = [&](const std::string& group) {
    return plan_front(read("model: {transformer: {layers: 4, hidden: 1024, heads: 16, sequence: 512, "
                           "vocabulary: 32000, efficiency: 0.4" +
                           group + "}}\n" + cluster),
                      {});
  };
  const PlanEvaluation one = front_of("").front();
  const PlanEvaluation group = front_of(", tensor_parallel: 4, tensor_bandwidth: 300 GB/s").front();
  ASSERT_EQ(one.devices(), 1);
  ASSERT_EQ(group.devices(), 1);
  EXPECT_EQ(one.devices_per_rank(), 1);
  EXPECT_EQ(group.devices_per_rank(), 4);
  const auto hours = [](const PlanEvaluation& plan, int devices) {
    return devices * 1e6 / plan.samples_per_second() / 3600;
  };
  EXPECT_DOUBLE_EQ(one.device_hours_per_million_samples(), hours(one, 1));
  EXPECT_DOUBLE_EQ(group.device_hours_per_million_samples(), hours(group, 4));
  EXPECT_DOUBLE_EQ(group.cost_per_million_samples().value(), 2 * hours(group, 4));
  // A shared layer is never cheaper: its all-reduces come on top.
  EXPECT_GT(group.device_hours_per_million_samples(), one.device_hours_per_million_samples());
}

TEST(PlanEvaluation, OfAClusterGivenLinkByLinkIsThatOfThePreset) {
  // The same two servers of two devices, once as a preset and once as links, where the devices come in turns.
  const std::string tree =
      "cluster: {devices: [a0, b0, a1, b1], switches: [a, b, top], links: ["
      "{between: [a0, a], bandwidth: 8 GB/s}, {between: [a1, a], bandwidth: 8 GB/s}, "
      "{between: [b0, b], bandwidth: 8 GB/s}, {between: [b1, b], bandwidth: 8 GB/s}, "
      "{between: [a, top], bandwidth: 1 GB/s}, {between: [top, b], bandwidth: 1 GB/s}]}\n";
  const std::string preset =
      "cluster: {preset: two-level, nodes: 2, devices_per_node: 2, intra_bandwidth: 8 GB/s, inter_bandwidth: "
      "1 GB/s}\n";
  const std::string model = "model: gnmt.yaml\ntraining: {micro_batch_size: 64, optimizer: adam}\n";
  const PlanEvaluation by_links = evaluated(model + tree);
  const PlanEvaluation by_preset = evaluated(model + preset);
  EXPECT_EQ(by_links.configuration(), by_preset.configuration());
  EXPECT_DOUBLE_EQ(by_links.planned.plan.period_ns, by_preset.planned.plan.period_ns);
  EXPECT_DOUBLE_EQ(by_links.simulated_period_ns, by_preset.simulated_period_ns);
  EXPECT_EQ(by_links.stage_peaks, by_preset.stage_peaks);
}

// The replicas of a stage are numbered across the servers, so that a minibatch keeps to one of them; the ring
// that reduces their gradients goes server by server all the same.
TEST(PlanEvaluation, RingsOfVgg16OnFourServersEnterEachServerOnce) {
  const PlanEvaluation plan = evaluated(
      "model: vgg16.yaml\ncluster: {preset: pipedream-a, nodes: 4}\n"
      "training: {micro_batch_size: 64, optimizer: momentum}\n",
      {.objective = PlanObjective::maximum_printed});
  EXPECT_EQ(plan.configuration(), "12-3-1");
  EXPECT_GT(plan.samples_per_second(), 1000) << "857 where every hop crosses servers";
}

}  // namespace
}  // namespace penstock
