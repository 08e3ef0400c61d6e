// Plans from noisy profiles: what they lose by hand in a small case, and that draws do not depend on threads.

#include "sim/planning/plan_regret.hpp"

#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include <cstddef>
#include <string>
#include <vector>

#include "scenarios/partition/plan_options.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/planning/plan_search.hpp"
#include "tests/sim/plan_scenarios.hpp"

namespace penstock {
namespace {

std::vector<RegretRow> regret(const Scenario& scenario, const ProfileNoise& noise,
                              const PlanOptions& options = {}) {
  auto rows = plan_regret(scenario, options, noise);
  EXPECT_TRUE(rows) << rows.error();
  return rows.value_or(std::vector<RegretRow>{});
}

const PlanOptions kStraightPlans{.form = PlanForm::straight};

/// Two devices, layers of 30, 10 and 32 us. The best cut is behind b (40 | 32); the other one is 30 | 42.
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
  EXPECT_DOUBLE_EQ(rows[0].simulated.worst, 42.0 / 40 - 1);  // nothing else takes time here
}

// Both layers on two devices, whatever the profile says; the search chooses how gradients are reduced.
// Buckets add a ring's latency, 980 us, and hide it behind the first layer's backward, 1000 us by the true
// profile and 500 to 1500 us by a noisy one. A minibatch takes 10 580 us with them and 10 590 us without.
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
