// The placed program counts the stages that the model is cut into, and only a cut model has the costs that
// some schedules weigh:
//
//   placed program -> cut -> (in buckets) -> compute program

#include "scenarios/prepare/resolved_scenario.hpp"

#include <string>
#include <utility>

#include <tl/expected.hpp>

#include "scenarios/prepare/bucket_cut.hpp"
#include "scenarios/prepare/compute_program.hpp"
#include "scenarios/prepare/program_prices.hpp"
#include "scenarios/prepare/schedule_in_force.hpp"
#include "scenarios/prepare/stage_cut.hpp"
#include "scenarios/read/batch.hpp"
#include "scenarios/read/scenario.hpp"
#include "scenarios/read/weight_state.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

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
  const auto whole = cut_model(scenario.model, scenario.partition, placed.stage_count());
  if (!whole) return tl::unexpected(whole.error());
  // The whole cut goes on beside it: schedules weigh whole stages.
  auto cut = cut_into_buckets(scenario.model, *whole, scenario.shape.buckets);
  if (!cut) return tl::unexpected(cut.error());
  auto computed = compute_program(in_force.schedule, std::move(placed), *whole, cut->buckets, terms);
  if (!computed) return tl::unexpected(computed.error());
  return ResolvedScenario{.terms = terms,
                          .cut = *std::move(cut),
                          .program = std::move(computed->program),
                          .notes = std::move(computed->notes)};
}

tl::expected<CostTable, std::string> costs_of_cut(const Scenario& scenario, const Program& program) {
  const auto in_force = schedule_in_force(scenario);
  if (!in_force) return tl::unexpected(in_force.error());
  // By the stated number of stages, as no program is generated: a search moves cuts and nothing else.
  const auto whole = cut_model(scenario.model, scenario.partition, scenario.shape.stages);
  if (!whole) return tl::unexpected(whole.error());
  const auto cut = cut_into_buckets(scenario.model, *whole, scenario.shape.buckets);
  if (!cut) return tl::unexpected(cut.error());
  return program_costs(price_terms(scenario, in_force->batch), *cut, program);
}

}  // namespace penstock
