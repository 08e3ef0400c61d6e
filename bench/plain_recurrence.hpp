#pragma once
// PipeDream's recurrence in the simplest form. The speed of the partitioner is compared with this slow
// planner. Tests compare the periods of both if it would take too long to try every plan.

#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/partition/pipedream_partition.hpp"

namespace penstock {

/// Returns the least period of all plans on all components, for the objective, form and transfers of
/// `options` and without a memory limit. Returns infinity if there is no plan. For every part of the
/// pipeline, it tries every last stage with every number of components.
double plain_recurrence_period_ns(const LayerGraph& graph, const std::vector<BandwidthLevel>& levels,
                                  const PlanOptions& options = {});

}  // namespace penstock
