// Compares plans with their simulations. If the recurrence ignores nothing, both agree. Otherwise the
// simulation shows the effect of what it ignores.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include "scenarios/partition/partition.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/choose/plan_search.hpp"
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
  // In the setting of PipeDream's figure 18, the period is 3 + 1.5 c with the paper's depth and the latency c
  // = 0.25 in each direction.
  const PlanEvaluation plan =
      evaluated(kFourLayers + "cluster: {preset: uniform, devices: 4, latency: 250 us}\n",
                {.form = PlanForm::straight});
  EXPECT_DOUBLE_EQ(plan.planned.plan.period_ns, 3e6);
  EXPECT_NEAR(plan.simulated_period_ns, 3.375e6, 1e-3);
}

TEST(PlanEvaluation, SendsMoreThanDataParallelismInResNet50s2By2) {
  // The plan sends 2.81 MB for each sample, and data parallelism 1.20 MB, on 4 GPUs with 128 samples each
  // (computed from the published profile).
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
  // The recurrence counts 2 activations of 1 MB on the first device. In the simulation, messages need memory
  // as well.
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
  // There are stages with 3 and 6 replicas. Their reductions and transfers meet in ever new combinations, so
  // there is no short period.
  const PlanEvaluation plan = evaluated(
      "model: {layers: [{name: a, forward: 1497 us, backward: 7385 us, output: 7804 kB, weights: 31596 kB}, "
      "{name: b, forward: 0 us, backward: 3101 us, output: 2635 kB}]}\n"
      "cluster: {preset: two-level, nodes: 3, devices_per_node: 3, intra_bandwidth: 12340 MB/s, "
      "inter_bandwidth: 1291 MB/s}\ntraining: {micro_batch_size: 4, optimizer: adam}\n",
      {.objective = PlanObjective::maximum_printed});
  EXPECT_EQ(plan.configuration(), "3-6");
  ASSERT_EQ(plan.notes.size(), 1);
  EXPECT_EQ(plan.notes.front().find("the stream shows no period"), 0) << plan.notes.front();
  // In the recurrence, activations and gradients are sent one after the other. Real links carry both at the
  // same time.
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
  // The reduction of the only layer takes much longer than its computation. So one device is as fast as any
  // number of devices.
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
  // Two devices are twice as fast with the same device-hours: 36 ms for each sample.
  ASSERT_EQ(front.size(), 1);
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
  // A layer that several devices share is never cheaper, because its all-reduces take additional time.
  EXPECT_GT(group.device_hours_per_million_samples(), one.device_hours_per_million_samples());
}

TEST(PlanEvaluation, OfAClusterGivenLinkByLinkIsThatOfThePreset) {
  // The two scenarios have the same two servers with two devices each. One uses the preset. The other lists
  // the links, and its devices alternate between the servers.
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

// The replicas of a stage alternate between the servers, so that the messages of a minibatch stay in one
// server. The ring that reduces their gradients still goes server by server.
TEST(PlanEvaluation, RingsOfVgg16OnFourServersEnterEachServerOnce) {
  const PlanEvaluation plan = evaluated(
      "model: vgg16.yaml\ncluster: {preset: pipedream-a, nodes: 4}\n"
      "training: {micro_batch_size: 64, optimizer: momentum}\n",
      {.objective = PlanObjective::maximum_printed});
  EXPECT_EQ(plan.configuration(), "12-3-1");
  EXPECT_GT(plan.samples_per_second(), 1000) << "857 where every hop crosses servers";
}

// The factors that the recurrence ignores. Without any factor, a stream has exactly the period of the
// recurrence. The effects of single factors are computed by hand.

PlanFactors factors_of(const PlanEvaluation& evaluation) {
  auto factors = plan_factors(evaluation);
  EXPECT_TRUE(factors) << factors.error();
  return factors.value_or(PlanFactors{});
}

FactorPeriods row(const PlanFactors& factors, PlanFactor factor) {
  const auto found = std::ranges::find(factors.rows, factor, &FactorPeriods::factor);
  EXPECT_NE(found, factors.rows.end()) << to_text(factor);
  return found == factors.rows.end() ? FactorPeriods{} : *found;
}

/// Returns layers with 1 ms for F, 2 ms for B, and no output bytes.
std::string equal_layers(int count) {
  std::string text = "model: {layers: [";
  for (int i = 0; i < count; ++i)
    text += fmt::format("{}{{name: l{}, forward: 1 ms, backward: 2 ms}}", i == 0 ? "" : ", ", i);
  return text + "]}\n";
}

// --- nothing on -----------------------------------------------------------------------------------------

struct Planned {
  const char* name;
  std::string text;
  PlanOptions options{};
};

void PrintTo(const Planned& plan, std::ostream* out) { *out << plan.name; }

std::vector<Planned> plans() {
  const std::string heavy =
      "model: {layers: [{name: a, forward: 10 ms, backward: 20 ms, output: 3 MB, weights: 1 MB}, "
      "{name: b, forward: 4 ms, backward: 6 ms, weights: 400 MB}]}\n";
  const std::string sends =
      "model: {layers: [{name: a, forward: 1 ms, backward: 2 ms, output: 20 MB}, "
      "{name: b, forward: 1 ms, backward: 2 ms, output: 30 MB}, {name: c, forward: 1 ms, backward: 2 ms}]}\n";
  const std::string vgg = "model: vgg16.yaml\ntraining: {micro_batch_size: 32, optimizer: momentum}\n";
  const std::string gnmt = "model: gnmt.yaml\ntraining: {micro_batch_size: 64, optimizer: adam}\n";
  const std::string two_by_four =
      "cluster: {preset: two-level, nodes: 2, devices_per_node: 4, intra_bandwidth: 8 GB/s, "
      "inter_bandwidth: 2 GB/s, intra_latency: 5 us, inter_latency: 50 us}\n";
  const PlanOptions straight{.form = PlanForm::straight};
  const PlanOptions sum{.objective = PlanObjective::sum};
  return {
      {"StraightOverFreeLinks", equal_layers(4) + "cluster: {preset: uniform, devices: 4}\n", straight},
      {"BoundByACut", sends + "cluster: {preset: uniform, devices: 3, bandwidth: 10 GB/s, latency: 1 ms}\n",
       straight},
      {"BoundByAReduction",
       "model: {layers: [{name: a, forward: 1 ms, backward: 2 ms, weights: 40 MB}]}\n"
       "cluster: {preset: uniform, devices: 3, bandwidth: 8 GB/s}\n"},
      {"ThreeAndOne", heavy + "cluster: {preset: uniform, devices: 4, bandwidth: 8 GB/s}\n"},
      {"TwoServers", heavy + two_by_four},
      {"TwoServersSum", heavy + two_by_four, sum},
      {"VggOnTwoServers", vgg + two_by_four},
      {"VggOnTwoServersSum", vgg + two_by_four, sum},
      {"VggOnClusterA", vgg + "cluster: {preset: pipedream-a, nodes: 2}\n"},
      {"VggInBuckets", vgg + "cluster: {preset: pipedream-a, nodes: 2}\nschedule: {buckets: 4}\n"},
      {"VggOnFourServers",
       "model: vgg16.yaml\ntraining: {micro_batch_size: 4, optimizer: momentum}\n"
       "cluster: {preset: pipedream-a, nodes: 4}\n"},
      {"GnmtOnFour", gnmt + "cluster: {preset: uniform, devices: 4, bandwidth: 1 GB/s}\n"},
      {"GnmtStraight", gnmt + "cluster: {preset: pipedream-a, nodes: 1}\n", straight},
  };
}

class IdealisedStream : public testing::TestWithParam<Planned> {};

TEST_P(IdealisedStream, TakesAsLongAsTheRecurrenceSays) {
  const PlanEvaluation evaluation = evaluated(GetParam().text, GetParam().options);
  const auto ideal = simulated_period(evaluation.planned, {});
  ASSERT_TRUE(ideal) << ideal.error();
  EXPECT_TRUE(ideal->is_exact) << evaluation.configuration();
  // Times of messages and of a stage's layers are rounded to whole nanoseconds.
  EXPECT_NEAR(ideal->period_ns, evaluation.planned.plan.period_ns, 2) << evaluation.configuration();
}

TEST_P(IdealisedStream, WithEveryFactorIsTheSimulation) {
  const PlanEvaluation evaluation = evaluated(GetParam().text, GetParam().options);
  FactorSet all;
  for (int factor = 0; factor < static_cast<int>(PlanFactor::ends); ++factor)
    all = all.with(static_cast<PlanFactor>(factor));
  const auto period = simulated_period(evaluation.planned, all);
  ASSERT_TRUE(period) << period.error();
  EXPECT_NEAR(period->period_ns, evaluation.simulated_period_ns, 1e-9 * evaluation.simulated_period_ns)
      << evaluation.configuration();
}

INSTANTIATE_TEST_SUITE_P(Plans, IdealisedStream, testing::ValuesIn(plans()),
                         [](const auto& plan) { return std::string(plan.param.name); });

TEST(PlanFactors, BucketsAreOneOfThem) {
  const std::string model =
      "model: {layers: [{name: a, forward: 10 ms, backward: 20 ms, weights: 40 MB}, "
      "{name: b, forward: 10 ms, backward: 20 ms, weights: 40 MB}]}\n"
      "cluster: {preset: uniform, devices: 2, bandwidth: 8 GB/s}\n";
  // Data parallelism computes for 60 ms and reduces 2 x 1/2 x 80 MB, which takes 10 ms. With two buckets, the
  // 5 ms of the second layer's reduction are hidden by the backward of the first layer.
  const PlanFactors whole = factors_of(evaluated(model));
  const PlanFactors parts = factors_of(evaluated(model + "schedule: {buckets: 2}\n"));
  EXPECT_EQ(std::ranges::count(whole.rows, PlanFactor::buckets, &FactorPeriods::factor), 0);
  EXPECT_DOUBLE_EQ(row(whole, PlanFactor::depth).with_those_before_ns, 70e6 / 2);
  EXPECT_DOUBLE_EQ(row(parts, PlanFactor::overlap).with_those_before_ns, 70e6 / 2);
  EXPECT_DOUBLE_EQ(row(parts, PlanFactor::buckets).with_those_before_ns, 65e6 / 2);
  EXPECT_DOUBLE_EQ(row(parts, PlanFactor::depth).with_those_before_ns, 65e6 / 2);
}

/// Returns a chain of layers with random times and sizes.
std::string random_layers(std::mt19937& random, int count) {
  const auto between = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  std::string text = "model: {layers: [";
  for (int i = 0; i < count; ++i) {
    text += fmt::format("{}{{name: l{}, forward: {} us, backward: {} us, output: {} kB, weights: {} kB}}",
                        i == 0 ? "" : ", ", i, between(1, 900), between(1, 2000), between(0, 3000),
                        between(0, 9000));
  }
  return text + "]}\n";
}

TEST(IdealisedStreams, OfRandomPlansTakeAsLongAsTheRecurrenceSays) {
  std::mt19937 random(5);
  for (int sample = 0; sample < 40; ++sample) {
    const std::string cluster =
        sample % 2 == 0
            ? fmt::format("cluster: {{preset: uniform, devices: {}, bandwidth: 4 GB/s}}\n", 1 + sample % 7)
            : "cluster: {preset: two-level, nodes: 2, devices_per_node: 3, intra_bandwidth: 8 GB/s, "
              "inter_bandwidth: 2 GB/s}\n";
    const PlanObjective objective = sample % 4 < 2 ? PlanObjective::maximum : PlanObjective::sum;
    const PlanEvaluation evaluation =
        evaluated(random_layers(random, 1 + sample % 8) + cluster, {.objective = objective});
    const auto ideal = simulated_period(evaluation.planned, {});
    ASSERT_TRUE(ideal) << ideal.error();
    EXPECT_NEAR(ideal->period_ns, evaluation.planned.plan.period_ns, 2)
        << evaluation.configuration() << ", sample " << sample;
  }
}

// --- one factor -----------------------------------------------------------------------------------------

TEST(PlanFactors, LatencyCostsNothingUntilTheDepthIsTheSchedulesOwn) {
  // In the setting of PipeDream's figure 18, the period is 3 + 1.5 c with the paper's depth. The latency c in
  // each direction is 0.25 of a forward.
  const PlanFactors factors =
      factors_of(evaluated(equal_layers(4) + "cluster: {preset: uniform, devices: 4, latency: 250 us}\n",
                           {.form = PlanForm::straight}));
  EXPECT_DOUBLE_EQ(factors.ideal_ns, 3e6);
  EXPECT_DOUBLE_EQ(row(factors, PlanFactor::latency).alone_ns, 3e6);
  EXPECT_DOUBLE_EQ(row(factors, PlanFactor::depth).alone_ns, 3e6);
  EXPECT_DOUBLE_EQ(row(factors, PlanFactor::overlap).with_those_before_ns, 3e6);
  EXPECT_DOUBLE_EQ(row(factors, PlanFactor::depth).with_those_before_ns, 3.375e6);
}

TEST(PlanFactors, TransfersOfBothDirectionsCrossAtOnce) {
  // 20 MB over 10 GB/s take 2 ms in each direction. One after the other, both take 4 ms. At the same time,
  // they take 2 ms, which is less than the computation.
  const PlanFactors factors =
      factors_of(evaluated("model: {layers: [{name: a, forward: 1 ms, backward: 2 ms, output: 20 MB}, "
                           "{name: b, forward: 1 ms, backward: 2 ms}]}\n"
                           "cluster: {preset: uniform, devices: 2, bandwidth: 10 GB/s}\n",
                           {.form = PlanForm::straight}));
  EXPECT_DOUBLE_EQ(factors.recurrence_ns, 4e6);
  EXPECT_DOUBLE_EQ(row(factors, PlanFactor::transfers).alone_ns, 3e6);
  EXPECT_DOUBLE_EQ(row(factors, PlanFactor::ring).alone_ns, 4e6);
}

/// A scenario with one layer of 3 ms on two devices. It has 8 MB of weights, and the links have 8 GB/s.
const std::string kTwoReplicas =
    "model: {layers: [{name: a, forward: 1 ms, backward: 2 ms, weights: 8 MB}]}\n"
    "cluster: {preset: uniform, devices: 2, bandwidth: 8 GB/s, latency: 100 us}\n";

TEST(PlanFactors, AReductionThatIsNotHiddenAddsToTheCompute) {
  // The printed recurrence has 2 W / B = 2 ms for the reduction, during 3 ms of computation, for a round of
  // two minibatches. A real ring takes 1 ms and 2 latencies.
  const PlanFactors factors =
      factors_of(evaluated(kTwoReplicas, {.objective = PlanObjective::maximum_printed}));
  EXPECT_DOUBLE_EQ(factors.ideal_ns, 1.5e6);
  EXPECT_DOUBLE_EQ(row(factors, PlanFactor::overlap).alone_ns, (3e6 + 2e6) / 2);
  EXPECT_DOUBLE_EQ(row(factors, PlanFactor::ring).alone_ns, 1.5e6);
  EXPECT_DOUBLE_EQ(row(factors, PlanFactor::overlap).with_those_before_ns, (3e6 + 1e6 + 2e5) / 2);
}

TEST(PlanFactors, TheSumHasTheReductionInTheWayAlready) {
  // Here, the reduction takes 4 W (m-1) / (B m), which is also 2 ms. It is added to the computation.
  const PlanFactors factors = factors_of(evaluated(kTwoReplicas, {.objective = PlanObjective::sum}));
  EXPECT_DOUBLE_EQ(factors.ideal_ns, (3e6 + 2e6) / 2);
  EXPECT_DOUBLE_EQ(row(factors, PlanFactor::overlap).alone_ns, factors.ideal_ns);
  EXPECT_DOUBLE_EQ(row(factors, PlanFactor::ring).alone_ns, (3e6 + 1e6) / 2);
}

TEST(PlanFactors, MessagesThatShareAnUplinkWait) {
  // Each server has one stage. The ring of the second stage is always busy: it sends 400 MB over each
  // device's link, which takes 50 ms for a round of two minibatches. Activations arrive over the same links.
  const PlanFactors factors = factors_of(
      evaluated("model: {layers: [{name: a, forward: 5 ms, backward: 10 ms, output: 1 MB}, "
                "{name: b, forward: 5 ms, backward: 10 ms, weights: 400 MB}]}\n"
                "cluster: {preset: two-level, nodes: 2, devices_per_node: 2, intra_bandwidth: 8 GB/s, "
                "inter_bandwidth: 1 GB/s}\n"));
  EXPECT_DOUBLE_EQ(row(factors, PlanFactor::latency).with_those_before_ns, 50e6 / 2);
  EXPECT_GT(row(factors, PlanFactor::contention).with_those_before_ns,
            row(factors, PlanFactor::latency).with_those_before_ns);
  EXPECT_DOUBLE_EQ(row(factors, PlanFactor::contention).alone_ns,
                   row(factors, PlanFactor::contention).with_those_before_ns);
}

TEST(PlanFactors, ARunHasEnds) {
  // 32 minibatches pass 4 stages of 3 ms, which takes 32 + 3 steps.
  const PlanFactors factors = factors_of(
      evaluated(equal_layers(4) + "cluster: {preset: uniform, devices: 4}\n", {.form = PlanForm::straight}));
  EXPECT_DOUBLE_EQ(row(factors, PlanFactor::ends).with_those_before_ns, 3e6 * (32 + 3) / 32);
}

TEST(PlanFactors, SayWhatIsHeldOverTime) {
  // The recurrence counts 2 activations of 1 MB on the first device. The simulation also counts message
  // buffers.
  const std::string model =
      "model: {layers: [{name: a, forward: 1 ms, backward: 2 ms, output: 1 MB}, {name: b, forward: 1 ms, "
      "backward: 2 ms}]}\ncluster: {preset: uniform, devices: 2, bandwidth: 1 GB/s, memory: 2 MB}\n";
  const PlanFactors factors = factors_of(evaluated(model, {.form = PlanForm::straight}));
  EXPECT_EQ(factors.memory.planned, 2'000'000);
  EXPECT_GT(factors.memory.simulated, 2'000'000);
  EXPECT_FALSE(factors.memory.fits_simulated);
}

TEST(PlanFactors, NeedAPlanThatTakesTime) {
  const auto refused =
      plan_factors(evaluated("model: {layers: [{name: a, forward: 0 ms, backward: 0 ms}]}\n"
                             "cluster: {preset: uniform, devices: 1}\n"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), "the plan takes no time, so that no factor can be set against it");
}

// Plans from noisy profiles: their loss in a small case that is computed by hand, and the independence of
// random numbers from threads.

std::vector<RegretRow> regret(const Scenario& scenario, const ProfileNoise& noise,
                              const PlanOptions& options = {}) {
  auto rows = plan_regret(scenario, options, noise);
  EXPECT_TRUE(rows) << rows.error();
  return rows.value_or(std::vector<RegretRow>{});
}

const PlanOptions kStraightPlans{.form = PlanForm::straight};

/// A scenario with two devices and layers of 30, 10 and 32 us. The best cut is after b (40 | 32). The other
/// cut gives 30 | 42.
const std::string kThreeLayers =
    "model: {layers: [{name: a, forward: 10 us, backward: 20 us}, {name: b, forward: 4 us, backward: 6 us}, "
    "{name: c, forward: 12 us, backward: 20 us}]}\ncluster: {preset: uniform, devices: 2}\n";

TEST(PlanRegret, IsThatOfTheOtherCut) {
  const std::vector<RegretRow> rows =
      regret(read(kThreeLayers), {.levels = {0.2}, .trials = 40}, kStraightPlans);
  ASSERT_EQ(rows.size(), 1);
  EXPECT_GT(rows[0].other_plans, 0);
  EXPECT_LT(rows[0].other_plans, 20);
  EXPECT_DOUBLE_EQ(rows[0].recurrence.worst, 42.0 / 40 - 1);
  EXPECT_DOUBLE_EQ(rows[0].recurrence.median, 0);
  EXPECT_DOUBLE_EQ(rows[0].simulated.worst, 42.0 / 40 - 1);  // only the computation takes time here
}

// With any profile, both layers are replicated on two devices, and the search only chooses how gradients are
// reduced. Buckets add the latency of a ring, 980 us, but the backward of the first layer hides it. This
// backward takes 1000 us by the true profile, and 500 to 1500 us by a noisy one. A minibatch takes 10 580 us
// with buckets and 10 590 us without.
TEST(PlanRegret, KnowsBucketsFromWholeReductions) {
  const Scenario scenario = read(
      "model: {layers: [{name: a, forward: 2 ms, backward: 1 ms, weights: 1 MB, output: 100 MB}, "
      "{name: b, forward: 5 ms, backward: 12 ms, weights: 1 MB, output: 1 kB}]}\n"
      "cluster: {preset: uniform, devices: 2, bandwidth: 10 GB/s, latency: 490 us}\n");
  const auto rows = plan_regret(scenario, {}, {.levels = {0.5}, .trials = 20}, PlanRanking::simulated);
  ASSERT_TRUE(rows) << rows.error();
  const RegretRow& row = rows->front();
  EXPECT_GT(row.other_plans, 0);
  EXPECT_LT(row.other_plans, 20);
  EXPECT_DOUBLE_EQ(row.recurrence.worst, 0);
  EXPECT_NEAR(row.simulated.worst, 10.0 / 10'580, 1e-9);
}

TEST(PlanRegret, IsNothingWithoutNoise) {
  const std::vector<RegretRow> rows =
      regret(read("model: gnmt.yaml\ncluster: {preset: pipedream-a, nodes: 1}\n"
                  "training: {micro_batch_size: 64}\n"),
             {.levels = {0}, .trials = 3});
  ASSERT_EQ(rows.size(), 1);
  EXPECT_EQ(rows[0].other_plans, 0);
  EXPECT_EQ(rows[0].recurrence.worst, 0);
  EXPECT_EQ(rows[0].simulated.worst, 0);
}

TEST(PlanRegret, IsNeverNegativeByTheRecurrence) {
  const std::vector<RegretRow> rows =
      regret(read("model: vgg16.yaml\ncluster: {preset: pipedream-a, nodes: 2}\n"
                  "training: {micro_batch_size: 32}\n"),
             {.levels = {0.05, 0.2, 0.6}, .trials = 10});
  ASSERT_EQ(rows.size(), 3);
  for (const RegretRow& row : rows) {
    EXPECT_GE(row.recurrence.median, 0);
    EXPECT_GE(row.recurrence.worst, row.recurrence.median);
    EXPECT_GE(row.simulated.worst, row.simulated.median);
  }
  EXPECT_GT(rows[2].recurrence.worst, 0);
}

TEST(PlanRegret, DoesNotDependOnTheNumberOfThreads) {
  const Scenario scenario =
      read("model: gnmt.yaml\ncluster: {preset: pipedream-a, nodes: 1}\ntraining: {micro_batch_size: 64}\n");
  const auto on_threads = [&](std::size_t threads) {
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
    return regret(scenario, {.seed = 7});
  };
  const std::vector<RegretRow> one = on_threads(1);
  const std::vector<RegretRow> four = on_threads(4);
  ASSERT_EQ(one.size(), 3);
  EXPECT_GT(one[2].other_plans, 0);
  EXPECT_EQ(one, four);
  EXPECT_NE(one, regret(scenario, {.seed = 8}));
}

TEST(PlanRegret, RefusesWhatCannotBePlanned) {
  EXPECT_EQ(plan_regret(read("model: {layers: [{name: a, forward: 0 ms, backward: 0 ms}]}\n"
                             "cluster: {preset: uniform, devices: 1}\n"),
                        {}, {})
                .error(),
            "the plan takes no time, so that none can take longer");
  EXPECT_EQ(plan_regret(read("cluster: {preset: uniform, devices: 1}\n"), {}, {}).error(),
            "a plan needs a model of layers: expected model.layers or model.profile, got one stage by stage");
}

TEST(WithTimesOf, PricesAPlanAsItIs) {
  Scenario truth = read(kThreeLayers);
  Scenario profile = read(
      "model: {layers: [{name: a, forward: 10 us, backward: 20 us}, {name: b, forward: 8 us, backward: 12 "
      "us}, "
      "{name: c, forward: 12 us, backward: 10 us}]}\ncluster: {preset: uniform, devices: 2}\n");
  const auto planned = plan_scenario(profile, kStraightPlans);
  ASSERT_TRUE(planned) << planned.error();
  EXPECT_DOUBLE_EQ(planned->plan.period_ns, 42'000);  // 30 | 20 + 22
  const auto priced = with_times_of(*planned, truth);
  ASSERT_TRUE(priced) << priced.error();
  EXPECT_EQ(priced->scenario.partition.cuts, planned->scenario.partition.cuts);
  EXPECT_DOUBLE_EQ(priced->plan.period_ns, 42'000);
  EXPECT_EQ(priced->plan.stages[1].compute_ns, 42'000);  // 10 + 32
}

}  // namespace
}  // namespace penstock
