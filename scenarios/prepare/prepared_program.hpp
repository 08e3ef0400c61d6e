#pragma once
// Makes the compute program of a scenario. The batch determines the number of microbatches, the program
// places stages on ranks, and the model is cut into that many stages.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/prepare/cut.hpp"
#include "scenarios/prepare/program_prices.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

// --- placed program --------------------------------------------------------------------------------------

/// The schedule that a scenario states: a program file, or the name of a schedule and a shape.
struct StatedSchedule {
  const Program* program = nullptr;  ///< the program of a file, or null if the program is generated
  std::string name;                  ///< the name of a generated schedule; empty if the scenario has none
  Shape shape;                       ///< the shape with the microbatches in force and the stated buckets
  bool weighs_costs = false;         ///< true if the order of a generated schedule depends on stage costs
};

/// Returns the program with each stage on its rank, without buckets and without an order by costs. Errors:
/// buckets together with a program file, a missing name, the errors of generate().
tl::expected<Program, std::string> placed_program(const StatedSchedule& schedule);

/// Returns placed_program(), but with empty lists if the order depends on costs. compute_program() searches
/// this order later, when the costs are known. Errors: the errors of placed_program().
tl::expected<Program, std::string> placed_stages(const StatedSchedule& schedule);

// --- schedule in force -----------------------------------------------------------------------------------

/// The schedule and the batch of a run, which agree in the number of microbatches.
struct ScheduleInForce {
  Batch stated;  ///< the stated batch of the run, with the microbatches of a program file
  ResolvedBatch batch;
  /// The schedule with the batch's microbatches. The scenario owns its `program` and must outlive it.
  StatedSchedule schedule;
};

/// Returns the schedule and batch of the whole scenario. With `copies`, it returns those of one copy of the
/// pipeline, and all copies share the stated batch. Errors: the errors of batch_of_copy() and
/// resolve_batch(); a stated number of microbatches that differs from that of the program file.
tl::expected<ScheduleInForce, std::string> schedule_in_force(const Scenario& scenario,
                                                             std::optional<std::int32_t> copies = {});

/// The cut and the compute program of a scenario.
struct ResolvedScenario {
  PriceTerms terms;  ///< the inputs of prices; the scenario must outlive them
  StageCut cut;
  Program program;                 ///< the program, which has only compute actions
  std::vector<std::string> notes;  ///< the notes of the schedule
};

/// Cuts the model of a settled scenario and makes its compute program. Requires `placed` =
/// placed_stages(in_force.schedule). Errors: the errors of cut_model(), cut_into_buckets() and
/// compute_program().
tl::expected<ResolvedScenario, std::string> resolve(const Scenario& scenario, const ScheduleInForce& in_force,
                                                    Program placed);

/// Returns the costs of `scenario` for `program`, which was prepared from a scenario that differs only in its
/// cuts. Requires a model of layers, and the same number of buckets in each stage of both. Errors: the errors
/// of schedule_in_force(), cut_model(), cut_into_buckets() and program_costs().
tl::expected<CostTable, std::string> costs_of_cut(const Scenario& scenario, const Program& program);

}  // namespace penstock
