#pragma once
// The figures of stages that costs were fitted for, and what is said of them. Used by fitted_prices.cpp.

#include <string>
#include <vector>

#include "scenarios/model/fitted_model.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/pricing/fitted_stages.hpp"

namespace penstock {

/// Times hold for the microbatch of `model`: nothing is scaled.
StageFigures fitted_figures(const FittedModel& model, const std::vector<FittedStage>& stages);

std::string fit_note(const FittedModel& model);

}  // namespace penstock
