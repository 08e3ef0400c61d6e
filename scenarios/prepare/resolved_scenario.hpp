#pragma once
// A settled scenario with its schedule's program, which says how many stages its model is cut into, the cut,
// and what both are priced by. Used by experiment.cpp.

#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/prepare/program_prices.hpp"
#include "scenarios/prepare/schedule_in_force.hpp"
#include "scenarios/prepare/stage_cut.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

struct ResolvedScenario {
  PriceTerms terms;  ///< the scenario must outlive them
  StageCut cut;
  Program program;                 ///< compute actions alone
  std::vector<std::string> notes;  ///< of the schedule
};

/// Of a settled scenario with its schedule in force and placed_stages() of it. Errors: those of cut_model(),
/// cut_into_buckets() and compute_program().
tl::expected<ResolvedScenario, std::string> resolve(const Scenario& scenario, const ScheduleInForce& in_force,
                                                    Program placed);

/// The costs of `scenario` for a program that was prepared from one that differs in its cuts alone. Requires
/// layers, and in each stage as many buckets as there. Errors: those of schedule_in_force(), cut_model(),
/// cut_into_buckets() and program_costs().
tl::expected<CostTable, std::string> costs_of_cut(const Scenario& scenario, const Program& program);

}  // namespace penstock
