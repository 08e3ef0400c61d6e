// Resolves a scenario in this order, because the placed program has the number of stages for the cut, and
// some schedules need the costs of the cut model:
//
//   placed program -> cut -> (in buckets) -> compute program

#include "scenarios/prepare/resolved_scenario.hpp"

#include <string>
#include <utility>

#include <tl/expected.hpp>

#include "scenarios/prepare/compute_program.hpp"
#include "scenarios/prepare/program_prices.hpp"
#include "scenarios/prepare/schedule_in_force.hpp"
#include "scenarios/prepare/stage_cut.hpp"
#include "scenarios/read/batch.hpp"
#include "scenarios/read/scenario.hpp"
#include "scenarios/read/weight_state.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/return_if_error.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {
namespace {

PriceTerms price_terms(const Scenario& scenario, const ResolvedBatch& batch) {
  return {
      .model = scenario.model,
      .pricing = {.samples = {.own = scenario.batch.own_micro_batch_size, .wanted = batch.micro_batch_size},
                  .beside = bytes_per_weight_byte(scenario.optimizer, scenario.precision),
                  .pipeline_size = scenario.program ? 0 : scenario.shape.stages},
      .cluster = scenario.cluster,
      .launch = scenario.launch,
      .clones_versions = scenario.clones_versions};
}

}  // namespace

tl::expected<ResolvedScenario, std::string> resolve(const Scenario& scenario, const ScheduleInForce& in_force,
                                                    Program placed) {
  const PriceTerms terms = price_terms(scenario, in_force.batch);
  PENSTOCK_ASSIGN_OR_RETURN(const StageCut whole,
                            cut_model(scenario.model, scenario.partition, placed.stage_count()));
  // The cut without buckets is also needed below, because schedules use the prices of whole stages.
  PENSTOCK_ASSIGN_OR_RETURN(StageCut cut, cut_into_buckets(scenario.model, whole, scenario.shape.buckets));
  PENSTOCK_ASSIGN_OR_RETURN(ProgramWithNotes computed,
                            compute_program(in_force.schedule, std::move(placed), whole, cut.buckets, terms));
  return ResolvedScenario{.terms = terms,
                          .cut = std::move(cut),
                          .program = std::move(computed.program),
                          .notes = std::move(computed.notes)};
}

tl::expected<CostTable, std::string> costs_of_cut(const Scenario& scenario, const Program& program) {
  PENSTOCK_ASSIGN_OR_RETURN(const ScheduleInForce in_force, schedule_in_force(scenario));
  // The stated number of stages is used, because no program is generated. A search changes only cuts.
  PENSTOCK_ASSIGN_OR_RETURN(const StageCut whole,
                            cut_model(scenario.model, scenario.partition, scenario.shape.stages));
  PENSTOCK_ASSIGN_OR_RETURN(const StageCut cut,
                            cut_into_buckets(scenario.model, whole, scenario.shape.buckets));
  return program_costs(price_terms(scenario, in_force.batch), cut, program);
}

}  // namespace penstock
