#pragma once
// What a scenario leaves open beside its schedule: what its stages cost where its model is priced on devices
// or by fitted costs, and where its layers are cut where that is planned. Used by experiment.cpp.

#include <string>
#include <tl/expected.hpp>

#include "scenarios/prepare/settled_scenario.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

/// Errors: those of price_on_devices(), price_by_fit() and with_planned_partition().
tl::expected<SettledScenario, std::string> settle(const Scenario& stated);

}  // namespace penstock
