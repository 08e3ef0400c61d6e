#pragma once
// Turns a model with fitted costs into a scenario of stages. Used by settle.cpp.

#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/model/fitted_model.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/one_copy.hpp"
#include "scenarios/prepare/schedule_in_force.hpp"
#include "scenarios/prepare/settle.hpp"
#include "scenarios/pricing/fitted_stages.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

// --- fitted figures --------------------------------------------------------------------------------------

/// Returns the figures of the stages. They hold for the microbatch size of `model`, and nothing is scaled.
StageFigures fitted_figures(const FittedModel& model, const std::vector<FittedStage>& stages);

std::string fit_note(const FittedModel& model);

// --- fitted prices ---------------------------------------------------------------------------------------

/// Returns one copy of the pipeline as a scenario of stages. All copies are alike. `placed` is the copy's
/// program, placed by the schedule in force. Requires a model with fitted costs. Errors: layers that cannot
/// be divided among the stages, a kind of layer without fitted costs.
tl::expected<SettledScenario, std::string> fitted_prices(OneCopy copy, const ScheduleInForce& in_force,
                                                         const Program& placed);

}  // namespace penstock
