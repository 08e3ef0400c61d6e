#pragma once
// What stages cost where a scenario leaves it open: on named devices, or by fitted costs. Used by
// experiment.cpp.

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "scenarios/prepare/one_copy.hpp"
#include "scenarios/prepare/schedule_in_force.hpp"
#include "scenarios/prepare/trained_model.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

// --- settled scenario ------------------------------------------------------------------------------------

/// A scenario whose model is stages or layers with stated cuts.
struct SettledScenario {
  Scenario scenario;
  std::int32_t copies = 1;                ///< of the pipeline, of which the scenario is one
  std::optional<TrainedModel> trained{};  ///< where a model is priced on named devices
};

// --- settle ----------------------------------------------------------------------------------------------

/// `placed` is placed_stages() of the copy's schedule in force, or the same with loops in the place of
/// lists. Errors: those of device_prices() and fitted_prices().
tl::expected<SettledScenario, std::string> settle(OneCopy copy, const ScheduleInForce& in_force,
                                                  const Program& placed);

}  // namespace penstock
