#pragma once
// The last step of preparation: a program with its prices, its cluster and its notes. Used by experiment.cpp.

#include <string>
#include <tl/expected.hpp>

#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/resolved_scenario.hpp"
#include "scenarios/prepare/settled_scenario.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// Prices `program`, which was made of the resolved one. Errors: those of program_prices().
tl::expected<Experiment, std::string> priced_experiment(const SettledScenario& settled,
                                                        const ResolvedScenario& resolved, Program program);

}  // namespace penstock
