#pragma once
// `partition: pipedream` in a scenario of any schedule: the plan's cuts. Used by one_copy.cpp, and
// wherever a scenario is changed after its cuts are known.

#include <string>
#include <tl/expected.hpp>

#include "scenarios/read/scenario.hpp"

namespace penstock {

/// `scenario` with `partition: pipedream` replaced by the plan's cuts; others as they are. A 1f1b-rr schedule
/// of one stage without replicas is left to the plan (plan_scenario() with its own number of minibatches);
/// any other schedule is cut into its own number of stages by a straight plan, a device a stage. Errors:
/// those of plan_scenario(); replicas beside `partition: pipedream`.
tl::expected<Scenario, std::string> with_planned_partition(const Scenario& scenario);

}  // namespace penstock
