#pragma once
// From a model with fitted costs to a scenario of stages. Used by settle.cpp.

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

/// Times hold for the microbatch of `model`: nothing is scaled.
StageFigures fitted_figures(const FittedModel& model, const std::vector<FittedStage>& stages);

std::string fit_note(const FittedModel& model);

// --- fitted prices ---------------------------------------------------------------------------------------

/// One pipeline of the model's copies, which are alike, as any other scenario, whose program is placed as the
/// schedule in force says. Requires a model with fitted costs. Errors: layers that cannot be shared out to
/// its stages, a kind of layers that nothing was fitted for.
tl::expected<SettledScenario, std::string> fitted_prices(OneCopy copy, const ScheduleInForce& in_force,
                                                         const Program& placed);

}  // namespace penstock
