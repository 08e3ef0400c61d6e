// Compares PipeDream's partitioner with a search through all plans of small graphs, and with a simple
// implementation of the recurrence. The search is defined first. It tries every plan, and shares no code with
// the partitioner.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "bench/plain_recurrence.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/partition/pipedream_partition.hpp"
#include "schedules/ir/action.hpp"
#include "tests/scenarios/library_model.hpp"
#include "tests/scenarios/planned_pipeline.hpp"

namespace penstock {

/// Returns the least period of all plans that use every component, or infinity if no plan fits. It supports
/// all objectives except `maximum`; plain_recurrence.hpp computes that one. The time is exponential in the
/// number of layers.
double brute_force_period_ns(const LayerGraph& graph, const std::vector<BandwidthLevel>& levels,
                             const PlanOptions& options);

/// Returns `count` layers with random times and sizes. About half of them read a layer before the previous
/// one.
LayerGraph random_layers(std::mt19937& random, std::int32_t count);
double random_bandwidth(std::mt19937& random);

namespace {

using Set = std::uint32_t;  // bit l: layer l

constexpr double kNoPlan = std::numeric_limits<double>::infinity();

bool has(Set set, std::size_t layer) { return (set >> layer & 1) != 0; }

class EveryPlan {
 public:
  EveryPlan(const LayerGraph& graph, const std::vector<BandwidthLevel>& levels, const PlanOptions& options)
      : graph_(graph), levels_(levels), options_(options) {}

  /// Returns the least period if the layers of `rest` are divided among `components` of the level. The layers
  /// of `done` run before them. `ahead` is the number of devices after the whole pipeline, for each of its
  /// copies.
  double best(std::size_t level, Set done, Set rest, std::int32_t components, double ahead,
              bool first) const {
    double least = kNoPlan;
    for (Set stage = rest; stage != 0; stage = (stage - 1) & rest) {
      if (!can_follow(done, stage, rest)) continue;
      const bool last = stage == rest;
      for (std::int32_t m = 1; m <= components; ++m) {
        if (last != (m == components) || (m > 1 && options_.form == PlanForm::straight)) continue;
        const std::int32_t later = components - m;
        double period = stage_time(level, done, stage, m, (later * devices_below(level) + ahead) / m, first);
        if (!first) period = std::max(period, cut_time(level, done, m));
        if (!first && options_.objective == PlanObjective::sum)
          period = std::max(period, cut_time(level, done | stage, m));
        if (!last) period = std::max(period, best(level, done | stage, rest & ~stage, later, ahead, false));
        least = std::min(least, period);
      }
    }
    return least;
  }

 private:
  /// Returns true if the stage can run directly after `done` and before the other layers of `rest`.
  bool can_follow(Set done, Set stage, Set rest) const {
    for (std::size_t layer = 0; layer < graph_.layers.size(); ++layer) {
      for (const std::int32_t input : graph_.layers[layer].inputs) {
        const bool input_comes_later = has(rest & ~stage, static_cast<std::size_t>(input));
        if (has(stage, layer) && input_comes_later) return false;
      }
    }
    static_cast<void>(done);
    return true;
  }

  double stage_time(std::size_t level, Set done, Set stage, std::int32_t m, double ahead, bool first) const {
    double weights = 0;
    for (std::size_t layer = 0; layer < graph_.layers.size(); ++layer)
      if (has(stage, layer)) weights += static_cast<double>(graph_.layers[layer].weights);
    const double compute = level == 0
                               ? device_time(stage, ahead)
                               : best(level - 1, done, stage, levels_[level - 1].components, ahead, true);
    const double seconds_per_byte = 1 / levels_[level].bytes_per_second;
    if (options_.objective == PlanObjective::sum) {
      const double devices = first && level > 0 ? levels_[level - 1].components : 1;
      return (compute + 1e9 * 4 * (m - 1) * weights * seconds_per_byte / (m * devices)) / m;
    }
    return std::max(compute, 1e9 * 2 * (m - 1) * weights * seconds_per_byte) / m;
  }

  double device_time(Set stage, double ahead) const {
    double time = 0;
    double in_flight = 1;
    while (in_flight < 1 + ahead - 1e-9) ++in_flight;
    double held = 0;
    for (std::size_t i = 0; i < graph_.layers.size(); ++i) {
      if (!has(stage, i)) continue;
      const Layer& layer = graph_.layers[i];
      time += static_cast<double>(layer.forward_ns + layer.backward_ns);
      held +=
          in_flight * static_cast<double>(layer.output + layer.weights) + static_cast<double>(layer.weights);
    }
    return options_.memory_limit && held > static_cast<double>(*options_.memory_limit) ? kNoPlan : time;
  }

  double cut_time(std::size_t level, Set done, std::int32_t m) const {
    double alive = 0;
    for (std::size_t i = 0; i < graph_.layers.size(); ++i) {
      bool is_read_later = false;
      for (std::size_t reader = 0; reader < graph_.layers.size(); ++reader) {
        const auto& inputs = graph_.layers[reader].inputs;
        if (!has(done, reader) && std::ranges::find(inputs, static_cast<std::int32_t>(i)) != inputs.end())
          is_read_later = true;
      }
      if (has(done, i) && is_read_later) alive += static_cast<double>(graph_.layers[i].output);
    }
    const double whole = 1e9 * 2 * alive / levels_[level].bytes_per_second;
    return options_.objective == PlanObjective::sum ? whole / m : whole;
  }

  std::int32_t devices_below(std::size_t level) const {
    std::int32_t devices = 1;
    for (std::size_t below = 0; below < level; ++below) devices *= levels_[below].components;
    return devices;
  }

  const LayerGraph& graph_;
  const std::vector<BandwidthLevel>& levels_;
  const PlanOptions& options_;
};

}  // namespace

double brute_force_period_ns(const LayerGraph& graph, const std::vector<BandwidthLevel>& levels,
                             const PlanOptions& options) {
  const Set all = (Set{1} << graph.layers.size()) - 1;
  return EveryPlan(graph, levels, options).best(levels.size() - 1, 0, all, levels.back().components, 0, true);
}

LayerGraph random_layers(std::mt19937& random, std::int32_t count) {
  const auto between = [&](std::int32_t least, std::int32_t most) {
    return std::uniform_int_distribution<std::int32_t>(least, most)(random);
  };
  LayerGraph graph;
  for (std::int32_t index = 0; index < count; ++index) {
    std::vector<std::int32_t> inputs;
    if (index > 0) inputs.push_back(between(0, 1) == 0 ? index - 1 : between(0, index - 1));
    if (index > 1 && between(0, 2) == 0) {
      const std::int32_t other = between(0, index - 1);
      if (other != inputs.front()) inputs.push_back(other);
      std::ranges::sort(inputs);
    }
    graph.layers.push_back({.name = "l" + std::to_string(index),
                            .forward_ns = between(1, 100),
                            .backward_ns = between(1, 200),
                            .output = between(0, 100),
                            .weights = between(0, 3) == 0 ? 0 : between(1, 200),
                            .inputs = inputs});
  }
  return graph;
}

double random_bandwidth(std::mt19937& random) {
  return std::uniform_real_distribution<double>(0.2e9, 4e9)(random);
}

// Compares the partitioner with the search and with the simple recurrence.

namespace {

/// Returns all clusters of one and of two levels with at most six devices. A cluster has the number of
/// components of each level, from the lowest to the highest.
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
        // The times of the plan's stages give the same period.
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

/// Returns the least period on the largest number of components of the highest level for which there is a
/// plan.
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
