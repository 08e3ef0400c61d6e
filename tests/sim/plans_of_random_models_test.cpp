// The search for a plan against every plan of random models, as `simulate` ranks them: where it tries them
// all it must find the best one; where it cannot, what it loses is small. Few models in the ordinary run;
//
//     PENSTOCK_PLANS=200 sim_tests --gtest_filter='PlansOfRandomModels.*'
//
// takes as many small ones and a tenth as many large ones, and prints what was lost.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "report/result/result.hpp"
#include "scenarios/partition/plan_options.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "sim/planning/plan_choice.hpp"
#include "sim/planning/plan_search.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/sim/plan_scenarios.hpp"
#include "tests/sim/random_model.hpp"

namespace penstock {
namespace {

constexpr Bytes kNoLimit = std::numeric_limits<Bytes>::max();

/// What a scenario simulates at.
struct Simulated {
  double samples_per_second = 0;
  Bytes peak = 0;
};

Simulated simulated(const Scenario& scenario) {
  const auto result =
      simulate_scenario(scenario, {.memory = {.samples = false}, .timeline = TimelineKept::none});
  EXPECT_TRUE(result) << result.error().message;
  if (!result) return {};
  return {.samples_per_second = result->throughput.steady_samples_per_second.value_or(0),
          .peak = highest_peak_bytes(*result)};
}

/// The plan that a choice stands for as somebody would write it down: cuts and replicas, devices in order;
/// whole rounds of its replicas, so many that the pipeline is full and memory at its peak.
Scenario written(Scenario scenario, const PlanChoice& choice) {
  std::int32_t multiple = 1;
  for (const std::int32_t replicas : choice.replicas) multiple = std::lcm(multiple, replicas);
  scenario.schedule = "1f1b-rr";
  scenario.partition = {.rule = Partition::Rule::cuts, .cuts = choice.cuts};
  scenario.shape = {.stages = static_cast<std::int32_t>(choice.stages()),
                    .replicas = choice.replicas,
                    .routing = Routing::global};
  scenario.batch.microbatches = multiple * (1 + 2 * choice.device_count() / multiple);
  return scenario;
}

/// Every plan of the model, simulated.
std::vector<Simulated> all_plans(const Scenario& scenario, const PlanSpace& space) {
  std::vector<Simulated> plans;
  for (const PlanChoice& choice : all_choices(space)) plans.push_back(simulated(written(scenario, choice)));
  return plans;
}

double best_rate(const std::vector<Simulated>& plans, Bytes limit) {
  double best = 0;
  for (const Simulated& plan : plans) {
    if (plan.peak <= limit) best = std::max(best, plan.samples_per_second);
  }
  return best;
}

/// A limit that the model on all devices as copies exceeds, and that some plan keeps, if there is one.
Bytes limit_without_data_parallelism(const Scenario& scenario, const std::vector<Simulated>& plans,
                                     std::int32_t devices) {
  const Bytes copies = simulated(written(scenario, {.cuts = {}, .replicas = {devices}})).peak;
  Bytes least = copies;
  for (const Simulated& plan : plans) least = std::min(least, plan.peak);
  return least + (copies - least) / 2;
}

/// What the plan that is found loses against the best of all: 0.01 is a rate 1 % lower.
struct Loss {
  double part = 0;
  SearchedPlan found;
};
Loss loss_of(const Scenario& scenario, const std::vector<Simulated>& plans, Bytes limit) {
  auto found = search_plan(scenario, {.memory_limit = limit});
  EXPECT_TRUE(found) << found.error();
  if (!found) return {.part = 1, .found = {}};
  const Simulated plan = simulated(found->planned.scenario);
  EXPECT_LE(plan.peak, limit);
  return {.part = std::max(0.0, 1 - plan.samples_per_second / best_rate(plans, limit)),
          .found = *std::move(found)};
}

std::size_t models(std::size_t usual, std::size_t part) {
  const char* given = std::getenv("PENSTOCK_PLANS");
  return given == nullptr ? usual : std::stoul(given) / part;
}

TEST(PlansOfRandomModels, AreTheBestOfAllWhereAllCanBeTried) {
  std::mt19937 random(20260307);
  for (std::size_t sample = 0; sample < models(8, 1); ++sample) {
    SCOPED_TRACE(sample);
    const auto layers = static_cast<std::int32_t>(2 + sample % 7);
    const auto size = static_cast<std::int32_t>(1 + sample % 3);
    const Scenario scenario = read(random_model(random, layers, 2, size));
    const auto plans = all_plans(scenario, {.layers = layers, .devices = 2 * size});
    for (const Bytes limit : {kNoLimit, limit_without_data_parallelism(scenario, plans, 2 * size)}) {
      const Loss loss = loss_of(scenario, plans, limit);
      EXPECT_TRUE(loss.found.tried_all);
      EXPECT_LT(loss.part, 1e-9) << "memory limit " << limit;
    }
  }
}

TEST(PlansOfRandomModels, LoseLittleWhereTheyAreTooMany) {
  // 12 layers on 8 devices are 50,388 plans; the ordinary run takes 10 on 6, which are 5,005.
  const bool is_long = std::getenv("PENSTOCK_PLANS") != nullptr;
  const PlanSpace space{.layers = is_long ? 12 : 10, .devices = is_long ? 8 : 6};
  std::mt19937 random(11);
  std::vector<double> losses;
  for (std::size_t sample = 0; sample < models(1, 10); ++sample) {
    SCOPED_TRACE(sample);
    const Scenario scenario = read(random_model(random, space.layers, 2, space.devices / 2));
    const auto plans = all_plans(scenario, space);
    for (const Bytes limit : {kNoLimit, limit_without_data_parallelism(scenario, plans, space.devices)}) {
      const Loss loss = loss_of(scenario, plans, limit);
      EXPECT_FALSE(loss.found.tried_all);
      EXPECT_LE(loss.found.simulations, 3000);
      EXPECT_LE(loss.part, 0.03) << "memory limit " << limit;
      losses.push_back(loss.part);
      if (is_long)
        std::cout << "  model " << sample << ", limit " << limit << ": " << loss.found.simulations
                  << " simulations, " << loss.part * 100 << " % lost" << std::endl;
    }
  }
  const double mean = std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
  if (is_long) std::cout << "  mean " << mean * 100 << " %\n";
  EXPECT_LE(mean, 0.005);
}

}  // namespace
}  // namespace penstock
