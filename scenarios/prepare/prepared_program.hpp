#pragma once
// The compute program of a scenario. Its schedule and its batch are made to agree, its program places the
// model's stages on ranks, and the model is cut into that many stages.

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

/// The schedule that a scenario states: a program, or a name of the table and a shape.
struct StatedSchedule {
  const Program* program = nullptr;  ///< given as a file; null: generated
  std::string name;                  ///< of a generated one; empty: not given
  Shape shape;                       ///< with the microbatches in force and the buckets as stated
  bool weighs_costs = false;         ///< generated, in an order that depends on what its stages cost
};

/// The program with the model's stages where they belong: nothing is weighed, and no stage is in buckets yet.
/// Errors: buckets beside a program file, no name, those of generate().
tl::expected<Program, std::string> placed_program(const StatedSchedule& schedule);

/// Returns placed_program() with empty lists if the schedule weighs costs. A search of the order without
/// costs would be for nothing, because compute_program() searches it for the costs at hand. Returns
/// placed_program() itself for other schedules. Errors: those of placed_program().
tl::expected<Program, std::string> placed_stages(const StatedSchedule& schedule);

// --- schedule in force -----------------------------------------------------------------------------------

struct ScheduleInForce {
  Batch stated;  ///< of what runs, with the microbatches of a program file
  ResolvedBatch batch;
  StatedSchedule schedule;  ///< with the batch's microbatches; the scenario must outlive its program
};

/// Of the whole scenario, or of one of `copies` of its pipeline, which share the batch. Errors: those of
/// batch_of_copy() and resolve_batch(); microbatches stated beside a program file that has others.
tl::expected<ScheduleInForce, std::string> schedule_in_force(const Scenario& scenario,
                                                             std::optional<std::int32_t> copies = {});

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
