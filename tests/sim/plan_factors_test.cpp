// What the recurrence leaves out: an idealised stream that takes exactly as long as it says, and what each
// factor adds to that, by hand.

#include "sim/planning/plan_factors.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "scenarios/partition/plan_options.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/planning/plan_evaluation.hpp"
#include "tests/sim/plan_scenarios.hpp"

namespace penstock {
namespace {

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

/// Layers of 1 ms forward and 2 ms backward, with nothing to send.
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
  // Roundings to whole nanoseconds: of a message, and of the times of a stage's layers.
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
  // Data parallelism: 60 ms and 2 x 1/2 x 80 MB, which take 10 ms. In two buckets the second layer's 5 ms run
  // beside the first one's backward.
  const PlanFactors whole = factors_of(evaluated(model));
  const PlanFactors parts = factors_of(evaluated(model + "schedule: {buckets: 2}\n"));
  EXPECT_EQ(std::ranges::count(whole.rows, PlanFactor::buckets, &FactorPeriods::factor), 0);
  EXPECT_DOUBLE_EQ(row(whole, PlanFactor::depth).with_those_before_ns, 70e6 / 2);
  EXPECT_DOUBLE_EQ(row(parts, PlanFactor::overlap).with_those_before_ns, 70e6 / 2);
  EXPECT_DOUBLE_EQ(row(parts, PlanFactor::buckets).with_those_before_ns, 65e6 / 2);
  EXPECT_DOUBLE_EQ(row(parts, PlanFactor::depth).with_those_before_ns, 65e6 / 2);
}

/// Layers of random times and sizes in a chain.
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
  // PipeDream's Fig. 18 setting: 3 + 1.5 c for a one-way latency c = 0.25 of a forward at the paper's depth.
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
  // 20 MB over 10 GB/s are 2 ms each way: 4 ms one after the other, 2 ms at once, less than the compute.
  const PlanFactors factors =
      factors_of(evaluated("model: {layers: [{name: a, forward: 1 ms, backward: 2 ms, output: 20 MB}, "
                           "{name: b, forward: 1 ms, backward: 2 ms}]}\n"
                           "cluster: {preset: uniform, devices: 2, bandwidth: 10 GB/s}\n",
                           {.form = PlanForm::straight}));
  EXPECT_DOUBLE_EQ(factors.recurrence_ns, 4e6);
  EXPECT_DOUBLE_EQ(row(factors, PlanFactor::transfers).alone_ns, 3e6);
  EXPECT_DOUBLE_EQ(row(factors, PlanFactor::ring).alone_ns, 4e6);
}

/// One layer of 3 ms on two devices; 8 MB of weights over 8 GB/s.
const std::string kTwoReplicas =
    "model: {layers: [{name: a, forward: 1 ms, backward: 2 ms, weights: 8 MB}]}\n"
    "cluster: {preset: uniform, devices: 2, bandwidth: 8 GB/s, latency: 100 us}\n";

TEST(PlanFactors, AReductionThatIsNotHiddenAddsToTheCompute) {
  // As printed: 2 W / B = 2 ms beside 3 ms, a round of two minibatches. A ring: 1 ms, and 2 latencies.
  const PlanFactors factors =
      factors_of(evaluated(kTwoReplicas, {.objective = PlanObjective::maximum_printed}));
  EXPECT_DOUBLE_EQ(factors.ideal_ns, 1.5e6);
  EXPECT_DOUBLE_EQ(row(factors, PlanFactor::overlap).alone_ns, (3e6 + 2e6) / 2);
  EXPECT_DOUBLE_EQ(row(factors, PlanFactor::ring).alone_ns, 1.5e6);
  EXPECT_DOUBLE_EQ(row(factors, PlanFactor::overlap).with_those_before_ns, (3e6 + 1e6 + 2e5) / 2);
}

TEST(PlanFactors, TheSumHasTheReductionInTheWayAlready) {
  // 4 W (m-1) / (B m) = 2 ms again, now added.
  const PlanFactors factors = factors_of(evaluated(kTwoReplicas, {.objective = PlanObjective::sum}));
  EXPECT_DOUBLE_EQ(factors.ideal_ns, (3e6 + 2e6) / 2);
  EXPECT_DOUBLE_EQ(row(factors, PlanFactor::overlap).alone_ns, factors.ideal_ns);
  EXPECT_DOUBLE_EQ(row(factors, PlanFactor::ring).alone_ns, (3e6 + 1e6) / 2);
}

TEST(PlanFactors, MessagesThatShareAnUplinkWait) {
  // A stage on each server. The ring of the second one is always busy: 400 MB over each device's link, 50 ms
  // a round of two minibatches. Activations arrive over the same links.
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
  // 32 minibatches through 4 stages of 3 ms: 32 + 3 steps.
  const PlanFactors factors = factors_of(
      evaluated(equal_layers(4) + "cluster: {preset: uniform, devices: 4}\n", {.form = PlanForm::straight}));
  EXPECT_DOUBLE_EQ(row(factors, PlanFactor::ends).with_those_before_ns, 3e6 * (32 + 3) / 32);
}

TEST(PlanFactors, SayWhatIsHeldOverTime) {
  // As planned: 2 activations of 1 MB on the first device. Simulated: buffers of messages as well.
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

}  // namespace
}  // namespace penstock
