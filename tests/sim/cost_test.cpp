// What a million samples cost, in each of the places that say it.

#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/planning/plan_evaluation.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/runs/sweep.hpp"

namespace penstock {
namespace {

/// Two devices at 3.60 an hour: 0.001 a second each.
Scenario scenario_of(const std::string& schedule, const std::string& price = ", price: 3.6") {
  auto scenario = parse_scenario(
      "model: {stages: {forward: 1 ms, backward: 2 ms}}\ncluster: {preset: uniform, devices: 2" + price +
          "}\nschedule: {" + schedule + "}\n",
      "s.yaml", {}, {});
  EXPECT_TRUE(scenario) << scenario.error();
  return *std::move(scenario);
}

std::optional<double> cost_of(const Scenario& scenario) {
  const auto result = simulate_scenario(scenario, {});
  EXPECT_TRUE(result) << result.error().message;
  return result->throughput.cost_per_million_samples;
}

TEST(Cost, IsDevicesTimesTimeTimesPrice) {
  // One sample takes 6 ms on 2 devices, a million 12 million device-ms.
  ASSERT_TRUE(cost_of(scenario_of("name: naive, stages: 2, microbatches: 1")));
  EXPECT_NEAR(*cost_of(scenario_of("name: naive, stages: 2, microbatches: 1")), 12, 1e-9);
}

TEST(Cost, OfAStreamIsThatOfItsSteadyRate) {
  // 1F1B on two stages completes a minibatch every 3 ms: 2 devices * 3 ms * 1e6 samples at 0.001 a second.
  EXPECT_NEAR(*cost_of(scenario_of("name: 1f1b-rr, stages: 2, microbatches: 4")), 6, 1e-9);
}

TEST(Cost, IsAbsentWithoutAPriceAndNothingWhereDevicesAreFree) {
  EXPECT_FALSE(cost_of(scenario_of("name: gpipe, stages: 2, microbatches: 4", "")));
  EXPECT_EQ(cost_of(scenario_of("name: gpipe, stages: 2, microbatches: 4", ", price: 0")), 0);
  EXPECT_FALSE(cost_per_million_samples({}, 2, 1.0)) << "no rate";
}

TEST(Cost, IsInEveryRowOfASweep) {
  SweepGrid grid;
  grid.schedules = {"gpipe", "1f1b-rr"};
  grid.stages = {2};
  grid.microbatches = {4};
  const auto swept = sweep(scenario_of("name: gpipe, stages: 2, microbatches: 4"), grid);
  ASSERT_EQ(swept.rows.size(), 2);
  EXPECT_EQ(swept.rows[0].throughput.cost_per_million_samples,
            cost_of(scenario_of("name: gpipe, stages: 2, microbatches: 4")));
  EXPECT_NEAR(swept.rows[1].throughput.cost_per_million_samples.value(), 6, 1e-9);
}

TEST(Cost, OfAPlanIsItsDeviceHoursTimesThePrice) {
  const auto scenario = parse_scenario(
      "model: {layers: [{name: a, forward: 1 ms, backward: 2 ms}, {name: b, forward: 1 ms, backward: 2 "
      "ms}]}\n"
      "cluster: {preset: uniform, devices: 2, price: 2}\n",
      "s.yaml", {}, {});
  ASSERT_TRUE(scenario) << scenario.error();
  const auto plan = evaluate_plan(*scenario, {});
  ASSERT_TRUE(plan) << plan.error();
  EXPECT_DOUBLE_EQ(plan->cost_per_million_samples().value(), 2 * plan->device_hours_per_million_samples());
}

}  // namespace
}  // namespace penstock
