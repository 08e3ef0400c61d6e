#pragma once
// PipeDream's recurrence as one reads it: the slow planner that the partitioner's times are set against, and
// whose periods it must have where trying every plan would take too long. Linked into tests, too.

#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/pipedream_levels.hpp"
#include "scenarios/partition/plan_options.hpp"

namespace penstock {

/// The least period of all plans on all components by the objective, form and transfers of `options`, without
/// a memory limit; infinity where there is none. Tries every last stage of every part of the pipeline with
/// every number of components, one after the other.
double plain_recurrence_period_ns(const LayerGraph& graph, const std::vector<BandwidthLevel>& levels,
                                  const PlanOptions& options = {});

}  // namespace penstock
