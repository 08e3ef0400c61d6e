#pragma once
// From a model with fitted costs to a scenario of stages. Used by settle.cpp.

#include <string>
#include <tl/expected.hpp>

#include "scenarios/model/fitted_model.hpp"
#include "scenarios/prepare/settled_scenario.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

/// One pipeline of the model's copies, which are alike, as any other scenario. Errors: layers or batches that
/// do not divide, a kind of layers that nothing was fitted for, copies that the schedule makes itself.
tl::expected<SettledScenario, std::string> price_by_fit(const Scenario& scenario, const FittedModel& model);

}  // namespace penstock
