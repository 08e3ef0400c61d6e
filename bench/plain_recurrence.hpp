#pragma once
// PipeDream's recurrence in the simplest form. The partitioner's times are compared with this slow planner.
// Its periods must be equal where trying every plan would take too long. Tests use it as well.

#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/partition/pipedream_levels.hpp"

namespace penstock {

/// Returns the least period of all plans on all components, for the objective, form and transfers of
/// `options` and without a memory limit. Returns infinity if there is no plan. Tries every last stage of
/// every part of the pipeline with every number of components.
double plain_recurrence_period_ns(const LayerGraph& graph, const std::vector<BandwidthLevel>& levels,
                                  const PlanOptions& options = {});

}  // namespace penstock
