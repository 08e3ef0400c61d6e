// PipeDream's partitioner against a brute force over all plans of small graphs and against the plain
// recurrence.

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "bench/plain_recurrence.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/partition/pipedream_partition.hpp"
#include "scenarios/partition/plan_options.hpp"
#include "tests/scenarios/brute_force_plan.hpp"
#include "tests/scenarios/library_model.hpp"
#include "tests/scenarios/planned_pipeline.hpp"

namespace penstock {
namespace {

/// Components of the levels, from the lowest to the highest: every cluster of one and of two levels with at
/// most six workers.
std::vector<std::vector<std::int32_t>> small_clusters() {
  constexpr std::int32_t kMostWorkers = 6;
  std::vector<std::vector<std::int32_t>> clusters;
  for (std::int32_t lower = 1; lower <= kMostWorkers; ++lower) {
    clusters.push_back({lower});
    for (std::int32_t higher = 1; lower * higher <= kMostWorkers; ++higher)
      clusters.push_back({lower, higher});
  }
  return clusters;
}

TEST(PipeDreamPartition, IsTheBestOfAllPlansOfSmallGraphs) {
  constexpr int kMostLayers = 8;
  constexpr int kGraphsOfEachSize = 3;
  std::mt19937 random(20260101);
  for (const std::vector<std::int32_t>& cluster : small_clusters()) {
    for (int sample = 0; sample < kGraphsOfEachSize * kMostLayers; ++sample) {
      const LayerGraph graph = random_layers(random, 1 + sample % kMostLayers);
      std::vector<BandwidthLevel> levels;
      for (const std::int32_t components : cluster)
        levels.push_back({.components = components, .bytes_per_second = random_bandwidth(random)});
      for (const PlanObjective objective : {PlanObjective::maximum_printed, PlanObjective::sum}) {
        SCOPED_TRACE(testing::PrintToString(cluster) + ", sample " + std::to_string(sample) +
                     (objective == PlanObjective::sum ? ", sum" : ", maximum-printed"));
        const PlanOptions options{.objective = objective};
        const double best = brute_force_period_ns(graph, levels, options);
        const PipelinePlan plan = planned(graph, levels, options);
        EXPECT_NEAR(plan.period_ns, best, 1e-12 * best);
        // What its stages are said to take adds up to it.
        EXPECT_NEAR(recurrence_period_ns(plan, objective), best, 1e-12 * best);
      }
    }
  }
}

constexpr PlanObjective kObjectives[] = {PlanObjective::maximum, PlanObjective::sum,
                                         PlanObjective::maximum_printed};

TEST(PipeDreamPartition, HasThePeriodOfThePlainRecurrenceOnPublishedProfiles) {
  for (const char* model : {"vgg16", "alexnet", "gnmt"}) {
    for (const std::vector<BandwidthLevel>& levels : {
             std::vector<BandwidthLevel>{{.components = 16, .bytes_per_second = 1.25e9}},
             std::vector<BandwidthLevel>{{.components = 4, .bytes_per_second = 12e9},
                                         {.components = 4, .bytes_per_second = 1.25e9}},
             std::vector<BandwidthLevel>{{.components = 8, .bytes_per_second = 30e9},
                                         {.components = 2, .bytes_per_second = 3.125e9}},
         }) {
      for (const PlanObjective objective : kObjectives) {
        const LayerGraph graph = library_model(model);
        const double period = plain_recurrence_period_ns(graph, levels, {.objective = objective});
        const PipelinePlan plan = planned(graph, levels, {.objective = objective});
        EXPECT_NEAR(plan.period_ns, period, 1e-12 * period) << model << " on " << levels.size() << " levels";
        EXPECT_NEAR(recurrence_period_ns(plan, objective), period, 1e-12 * period) << model;
      }
    }
  }
}

TEST(PipeDreamPartition, HasThePeriodOfThePlainRecurrenceOnRandomLevels) {
  std::mt19937 random(23);
  const auto between = [&](std::int32_t least, std::int32_t most) {
    return std::uniform_int_distribution<std::int32_t>(least, most)(random);
  };
  for (int sample = 0; sample < 300; ++sample) {
    const LayerGraph graph = random_layers(random, between(1, 10));
    std::vector<BandwidthLevel> levels;
    for (std::int32_t level = between(1, 3); level > 0; --level)
      levels.push_back({.components = between(1, 4), .bytes_per_second = random_bandwidth(random)});
    for (const PlanObjective objective : kObjectives) {
      SCOPED_TRACE("sample " + std::to_string(sample));
      const PlanOptions options{.objective = objective,
                                .form = sample % 4 == 3 ? PlanForm::straight : PlanForm::replicated,
                                .transfers = sample % 3 == 2 ? CutTransfers::free : CutTransfers::counted};
      const double period = plain_recurrence_period_ns(graph, levels, options);
      if (period == kUnlimited) continue;  // a straight pipeline of fewer layers than devices
      const PipelinePlan plan = planned(graph, levels, options);
      EXPECT_NEAR(plan.period_ns, period, 1e-12 * period);
      EXPECT_NEAR(recurrence_period_ns(plan, objective), period, 1e-12 * period);
    }
  }
}

TEST(PipeDreamPartition, IsTheBestOfAllStraightPipelines) {
  std::mt19937 random(7);
  for (int sample = 0; sample < 40; ++sample) {
    const LayerGraph graph = random_layers(random, 4 + sample % 5);
    const std::vector<BandwidthLevel> levels = {
        {.components = 1 + sample % 4, .bytes_per_second = random_bandwidth(random)}};
    const PlanOptions options{.objective = PlanObjective::maximum_printed, .form = PlanForm::straight};
    const double best = brute_force_period_ns(graph, levels, options);
    EXPECT_NEAR(planned(graph, levels, options).period_ns, best, 1e-12 * best) << "sample " << sample;
  }
}

/// The least period on as many components of the highest level as any plan can use.
double least_on_most_components(const LayerGraph& graph, std::vector<BandwidthLevel> levels,
                                const PlanOptions& options) {
  for (; levels.back().components > 0; --levels.back().components) {
    const double best = brute_force_period_ns(graph, levels, options);
    if (best != kUnlimited) return best;
  }
  return kUnlimited;
}

TEST(PipeDreamPartition, IsTheBestOfAllPlansWithinTheMemory) {
  std::mt19937 random(11);
  int refused = 0;
  for (int sample = 0; sample < 60; ++sample) {
    const LayerGraph graph = random_layers(random, 2 + sample % 6);
    const std::vector<BandwidthLevel> levels =
        sample % 2 == 0 ? std::vector<BandwidthLevel>{{.components = 4, .bytes_per_second = 1e9}}
                        : std::vector<BandwidthLevel>{{.components = 2, .bytes_per_second = 1e9},
                                                      {.components = 2, .bytes_per_second = 3e8}};
    const PlanOptions options{
        .objective = sample % 4 < 2 ? PlanObjective::maximum_printed : PlanObjective::sum,
        .memory_limit = 200 + 80 * (sample % 10)};
    const double best = least_on_most_components(graph, levels, options);
    const auto plan = plan_pipeline(graph, levels, options);
    if (best == kUnlimited) {
      ++refused;
      EXPECT_FALSE(plan) << "sample " << sample;
    } else {
      ASSERT_TRUE(plan) << plan.error();
      EXPECT_NEAR(plan->period_ns, best, 1e-12 * best) << "sample " << sample;
      for (const PlannedStage& stage : plan->stages) EXPECT_LE(stage.held, *options.memory_limit);
    }
  }
  EXPECT_GT(refused, 5);
  EXPECT_LT(refused, 55);
}

}  // namespace
}  // namespace penstock
