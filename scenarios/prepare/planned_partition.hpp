#pragma once
// Applies `partition: pipedream` to a scenario with any schedule. Used by one_copy.cpp, and by code that
// changes a scenario after its cuts are known.

#include <string>
#include <tl/expected.hpp>

#include "scenarios/read/scenario.hpp"

namespace penstock {

/// Returns `scenario` with `partition: pipedream` replaced by the cuts of a plan. Other scenarios are
/// returned unchanged. For a 1f1b-rr schedule of one stage without replicas, the plan also decides stages and
/// replicas. For any other schedule, a straight plan cuts the model into the schedule's number of stages,
/// with one device each. Errors: the errors of plan_scenario(), and replicas together with `partition:
/// pipedream`.
tl::expected<Scenario, std::string> with_planned_partition(const Scenario& scenario);

}  // namespace penstock
