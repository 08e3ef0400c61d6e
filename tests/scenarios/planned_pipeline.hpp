#pragma once
// What the recurrence plans, in the words of its tests.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/pipedream_partition.hpp"
#include "scenarios/partition/plan_options.hpp"
#include "schedules/ir/action.hpp"
#include "tests/scenarios/layer_chain.hpp"

namespace penstock {

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
