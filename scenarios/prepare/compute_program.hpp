#pragma once
// The compute program of a scenario's schedule, made of the placed one, because a schedule may weigh what its
// stages cost, and costs belong to stages that only a program has. Used by resolved_scenario.cpp.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/prepare/program_prices.hpp"
#include "scenarios/prepare/schedule_in_force.hpp"
#include "scenarios/prepare/stage_cut.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

// --- weighed costs ---------------------------------------------------------------------------------------

/// How long an activation takes from each stage to the next one. Error: times that are too long for a search.
tl::expected<std::vector<Ns>, std::string> transfer_times(const Program& placed, const ProgramPrices& prices);

// --- compute program -------------------------------------------------------------------------------------

/// `placed` with its stages in `buckets`, as many as a stage of the model has, and, where the schedule weighs
/// costs, in the order that is best for them, with what the schedule says of it. Requires
/// placed_stages(schedule) and a cut of its stages. Errors: those of generate(), program_prices() and
/// transfer_times().
GeneratedWithNotes compute_program(const StatedSchedule& schedule, Program placed, const StageCut& whole,
                                   const std::vector<std::int32_t>& buckets, const PriceTerms& terms);

}  // namespace penstock
