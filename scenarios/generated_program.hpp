#pragma once
// Asks the table of schedules for a scenario's program. Used by experiment.cpp.

#include <string>
#include <tl/expected.hpp>

#include "scenarios/batch.hpp"
#include "scenarios/scenario.hpp"
#include "schedules/program.hpp"

namespace penstock {

/// The compute program of `scenario.schedule`. A schedule that weighs costs is given those of the model and
/// the transfer times of the cluster. Errors: no schedule is named, those of generate(), of cost_table() and
/// of build_cluster().
tl::expected<Program, std::string> generated_program(const Scenario& scenario, const ResolvedBatch& batch);

}  // namespace penstock
