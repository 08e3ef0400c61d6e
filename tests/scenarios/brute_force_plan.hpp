#pragma once
// The slow, obvious planner that PipeDream's programme is compared with: tries every plan.

#include <cstdint>
#include <random>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/pipedream_levels.hpp"
#include "scenarios/partition/plan_options.hpp"

namespace penstock {

/// The least period of all plans that use every component (in a straight pipeline, no level is straight
/// with fewer), infinity when none fits. Of the objectives whose parts do not depend on each other: all but
/// `maximum`, for which plain_recurrence.hpp is. Exponential in the layers.
double brute_force_period_ns(const LayerGraph& graph, const std::vector<BandwidthLevel>& levels,
                             const PlanOptions& options);

/// `count` layers of random times and sizes, about half of them branching off earlier than the previous one.
LayerGraph random_layers(std::mt19937& random, std::int32_t count);
double random_bandwidth(std::mt19937& random);

}  // namespace penstock
