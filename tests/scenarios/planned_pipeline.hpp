#pragma once
// Models that are a chain of layers, and plans for them, for tests.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/partition/pipedream_partition.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

struct LayerSizes {
  Bytes output = 0;
  Bytes weights = 0;
};

/// Returns the layers l0, l1, ... with the given times and equal sizes. A third of each time is the forward
/// pass.
inline LayerGraph layer_chain(const std::vector<Ns>& times, const LayerSizes& sizes) {
  LayerGraph graph;
  for (const Ns time : times) {
    const auto index = static_cast<std::int32_t>(graph.layers.size());
    graph.layers.push_back({.name = "l" + std::to_string(index),
                            .forward_ns = time / 3,
                            .backward_ns = time - time / 3,
                            .output = sizes.output,
                            .weights = sizes.weights,
                            .inputs = index == 0 ? std::vector<std::int32_t>{} : std::vector{index - 1}});
  }
  return graph;
}

/// Like layer_chain(), with outputs of 100 bytes and weights of 10 bytes.
inline LayerGraph chain(const std::vector<Ns>& times) {
  return layer_chain(times, {.output = 100, .weights = 10});
}

// Functions that tests of plans use.

inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();

inline PipelinePlan planned(const LayerGraph& graph, const std::vector<BandwidthLevel>& levels,
                            const PlanOptions& options = {}) {
  auto plan = plan_pipeline(graph, levels, options);
  EXPECT_TRUE(plan) << plan.error();
  return plan.value_or(PipelinePlan{});
}

inline std::string refusal(const LayerGraph& graph, const std::vector<BandwidthLevel>& levels,
                           const PlanOptions& options) {
  const auto plan = plan_pipeline(graph, levels, options);
  return plan ? "no error" : plan.error();
}

inline std::vector<std::size_t> replicas_of(const PipelinePlan& plan) {
  std::vector<std::size_t> replicas;
  for (const PlannedStage& stage : plan.stages) replicas.push_back(stage.devices.size());
  return replicas;
}

inline std::vector<std::int32_t> in_flight_of(const PipelinePlan& plan) {
  std::vector<std::int32_t> counts;
  for (const PlannedStage& stage : plan.stages) counts.push_back(stage.in_flight);
  return counts;
}

}  // namespace penstock
