#pragma once
// Makes the compute program of a scenario. The batch determines the number of microbatches. The schedule
// determines the number of stages and their ranks, and the model is cut into that number of stages.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/cut.hpp"
#include "scenarios/prepare/program_prices.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "topology/cluster.hpp"

namespace penstock {

// --- placed program --------------------------------------------------------------------------------------

/// The schedule that a scenario states: a program file, or the name of a schedule and a shape.
struct StatedSchedule {
  const Program* program = nullptr;  ///< the program of a file, or null if the program is generated
  std::string name;                  ///< the name of a generated schedule; empty if the scenario has none
  Shape shape;                ///< the shape with the run's number of microbatches and the stated buckets
  bool weighs_costs = false;  ///< true if the order of a generated schedule depends on stage costs
};

/// Returns the program of the schedule, in which each stage has its rank. The program has no gradient
/// buckets, and its order does not depend on costs. Returns an error if a program file is combined with
/// buckets, if the name is missing, or if generate() fails.
tl::expected<Program, std::string> placed_program(const StatedSchedule& schedule);

/// Returns the same program as placed_program(), but with empty lists if their order depends on costs.
/// compute_program() searches for this order later, when the costs are known. Fails if placed_program()
/// fails.
tl::expected<Program, std::string> placed_stages(const StatedSchedule& schedule);

// --- schedule in force -----------------------------------------------------------------------------------

/// The schedule and the batch of a run. Both have the same number of microbatches.
struct ScheduleInForce {
  /// The batch as the scenario states it. If there is a program file, its number of microbatches replaces
  /// the stated one.
  Batch stated;
  ResolvedBatch batch;
  /// The schedule with the batch's number of microbatches. Its `program` belongs to the scenario, which must
  /// outlive this object.
  StatedSchedule schedule;
};

/// Returns the schedule and batch of the whole scenario. If `copies` is set, returns those of one pipeline
/// copy, and `copies` copies share the stated batch. Fails if batch_of_copy() or resolve_batch() fails. Also
/// fails if the stated number of microbatches differs from that of the program file.
tl::expected<ScheduleInForce, std::string> schedule_in_force(const Scenario& scenario,
                                                             std::optional<std::int32_t> copies = {});

/// The cut of a scenario's model into stages, and the program of compute actions for these stages.
struct ResolvedScenario {
  PriceTerms terms;  ///< the inputs from which costs are computed; the scenario must outlive them
  StageCut cut;
  Program program;                 ///< the program, which has only compute actions
  std::vector<std::string> notes;  ///< the notes of the schedule
};

/// Cuts the model of a scenario whose costs are all stated, and generates the program of its compute actions.
/// Requires `placed` = placed_stages(in_force.schedule). Fails if cut_model(), cut_into_buckets() or
/// compute_program() fails.
tl::expected<ResolvedScenario, std::string> resolve(const Scenario& scenario, const ScheduleInForce& in_force,
                                                    Program placed);

/// Returns the costs of `program` with the cuts of `scenario`. The program must have been prepared from a
/// scenario that differs from `scenario` only in its cuts. Requires a model of layers, and equal numbers of
/// gradient buckets in both scenarios. Fails if schedule_in_force(), cut_model(), cut_into_buckets() or
/// program_costs() fails.
tl::expected<CostTable, std::string> costs_of_cut(const Scenario& scenario, const Program& program);

// Checks a program before a run. The checks refuse invalid programs, edges of the model that contradict the
// program, and runs whose times or bytes exceed 64 bits.

/// Returns true if the model states edges between its stages. The rules of schedules assume a chain of
/// stages.
bool has_edges(const Model& model);

/// Returns the program `compute` with the model's edges, validated, and lowered for the channels. Requires a
/// program of compute actions. Fails if the edges contradict the program or name a missing stage, or if the
/// program is invalid. The error messages do not name a file.
tl::expected<Program, UserError> lowered_program(Program compute, const Model& model,
                                                 const ChannelOptions& channels);

// --- byte range ------------------------------------------------------------------------------------------

/// Returns an error message if the bytes that ranks hold and send may exceed 64 bits. The message names the
/// largest term of the sum. Returns nothing if 64 bits are enough. `costs` must be the costs of the program.
std::optional<std::string> byte_fault(const Program& program, const CostTable& costs);

// --- time range ------------------------------------------------------------------------------------------

/// Returns an error message if the times of a run may exceed 64 bits. The message names the action or message
/// with the largest total. Returns nothing if 64 bits are enough. The program's lists may be empty, because
/// each compute action of a stage and microbatch occurs once. `costs` must be the costs of the program.
std::optional<std::string> time_fault(const Program& program, const CostTable& costs, const Cluster& cluster);

}  // namespace penstock
