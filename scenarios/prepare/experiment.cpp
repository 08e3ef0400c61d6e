// A Scenario is taken apart here; each step takes the parts that it needs and makes one value, once:
//
//   Scenario -> settled: stages, or layers with stated cuts
//            -> schedule and batch in force -> its program placed
//            -> cut of the model -> compute program -> with the model's edges, valid, lowered
//            -> its costs on its cluster -> Experiment
//
// A step may end with an error in words; what was assumed or scaled becomes a note of the experiment.

#include "scenarios/prepare/experiment.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/model/device_model.hpp"
#include "scenarios/model/fitted_model.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/compute_program.hpp"
#include "scenarios/prepare/experiment_notes.hpp"
#include "scenarios/prepare/lowered_program.hpp"
#include "scenarios/prepare/model_stages.hpp"
#include "scenarios/prepare/prepare_error.hpp"
#include "scenarios/prepare/program_prices.hpp"
#include "scenarios/prepare/schedule_in_force.hpp"
#include "scenarios/prepare/settled_scenario.hpp"
#include "scenarios/prepare/stage_costs.hpp"
#include "scenarios/prepare/stage_cut.hpp"
#include "scenarios/read/batch.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {
namespace {

template <typename Value>
using OrError = tl::expected<Value, std::string>;

PriceTerms price_terms(const Scenario& scenario, const ResolvedBatch& batch) {
  return {
      .model = scenario.model,
      .pricing = {.samples = {.own = scenario.batch.own_micro_batch_size, .wanted = batch.micro_batch_size},
                  .beside = bytes_per_weight_byte(scenario.optimizer, scenario.precision)},
      .cluster = scenario.cluster,
      .launch = scenario.launch,
      .clones_versions = scenario.clones_versions};
}

/// A scenario's program, which says how many stages there are to cut into, and what it is priced by.
struct Resolved {
  PriceTerms terms;  ///< the scenario must outlive them
  StageCut cut;
  Program program;                 ///< compute actions alone
  std::vector<std::string> notes;  ///< of the schedule
};

OrError<Resolved> resolve(const Scenario& scenario, const ScheduleInForce& in_force, Program placed) {
  auto cut = cut_model(scenario.model, scenario.partition, placed.stage_count(), scenario.shape.buckets);
  if (!cut) return tl::unexpected(cut.error());
  const PriceTerms terms = price_terms(scenario, in_force.batch);
  auto computed = compute_program(in_force.schedule, std::move(placed), *cut, terms);
  if (!computed) return tl::unexpected(computed.error());
  return Resolved{.terms = terms,
                  .cut = *std::move(cut),
                  .program = std::move(computed->program),
                  .notes = std::move(computed->notes)};
}

OrError<Resolved> resolve(SettledScenario& settled) {
  const auto in_force = schedule_in_force(settled.scenario);
  if (!in_force) return tl::unexpected(in_force.error());
  if (settled.placed) return resolve(settled.scenario, *in_force, *std::move(settled.placed));
  auto placed = placed_program(in_force->schedule);
  if (!placed) return tl::unexpected(placed.error());
  return resolve(settled.scenario, *in_force, *std::move(placed));
}

std::optional<StagedNetwork> staged_network(const Scenario& scenario, const StageCut& cut) {
  if (!scenario.network) return std::nullopt;
  const auto* graph = std::get_if<LayerGraph>(&scenario.model);
  StagedNetwork network{.spec = *scenario.network, .layers = {}, .optimizer = scenario.optimizer};
  if (graph != nullptr) network.layers = layers_of_stages(*graph, cut);
  return network;
}

std::vector<std::string> notes_of(const Scenario& scenario, const Resolved& resolved,
                                  std::int32_t microbatches) {
  std::vector<std::string> notes = with_microbatch_notes(scenario.notes, scenario.model, microbatches);
  notes.insert(notes.end(), resolved.notes.begin(), resolved.notes.end());
  return with_scaling_note(std::move(notes), scenario.model, resolved.terms.pricing.samples);
}

/// Prices a program that was made of the resolved one.
OrError<Experiment> priced(const SettledScenario& settled, const Resolved& resolved, Program program) {
  const Scenario& scenario = settled.scenario;
  auto prices = program_prices(resolved.terms, resolved.cut, program);
  if (!prices) return tl::unexpected(prices.error());
  const auto samples = static_cast<double>(resolved.terms.pricing.samples.wanted);
  std::vector<std::string> notes = notes_of(scenario, resolved, program.microbatches);
  return Experiment{.name = scenario.file.empty() ? program.schedule : scenario.file,
                    .program = std::move(program),
                    .costs = std::move(prices->costs),
                    .cluster = std::move(prices->cluster),
                    .channels = scenario.channels,
                    .samples_per_microbatch = samples * settled.copies,
                    .notes = std::move(notes),
                    .price_per_device_hour = scenario.cluster.price_per_device_hour,
                    .counts_activations = std::holds_alternative<UnitCosts>(scenario.model),
                    .trained = settled.trained,
                    .network = staged_network(scenario, resolved.cut)};
}

/// What keeps a scenario from being prepared as loops; empty: nothing.
std::string not_rolled(const Scenario& scenario) {
  const ScheduleInfo* schedule = find_schedule(scenario.schedule);
  if (scenario.program || schedule == nullptr) return "a program file";
  if (schedule->weighs_costs) return "a schedule that weighs what stages cost";
  if (!scenario.shape.buckets.empty()) return "stages in buckets";
  if (scenario.clones_versions) return "clones of weights, which are counted in a stored program,";
  return has_edges(scenario.model) ? "stage edges of the model" : "";
}

/// What is made of the program that a schedule gives.
enum class ProgramForm : std::uint8_t { lowered, as_generated };

tl::expected<Experiment, PrepareError> prepared(const Scenario& stated, ProgramForm form) {
  const auto refused = [&](const std::string& fault) { return bad_input(stated.file, fault); };
  auto settled = settle(stated);
  if (!settled) return tl::unexpected(refused(settled.error()));
  auto resolved = resolve(*settled);
  if (!resolved) return tl::unexpected(refused(resolved.error()));
  Program program = std::move(resolved->program);
  if (form == ProgramForm::lowered || has_edges(settled->scenario.model)) {
    auto lowered = lowered_program(std::move(program), settled->scenario.model, stated.file);
    if (!lowered) return tl::unexpected(lowered.error());
    program = *std::move(lowered);
  }
  return priced(*settled, *resolved, std::move(program)).map_error(refused);
}

}  // namespace

tl::expected<Experiment, PrepareError> prepare(const Scenario& stated) {
  return prepared(stated, ProgramForm::lowered);
}

tl::expected<Experiment, PrepareError> prepare_as_generated(const Scenario& stated) {
  return prepared(stated, stated.program ? ProgramForm::lowered : ProgramForm::as_generated);
}

tl::expected<CostTable, std::string> costs_of_cut(const Scenario& scenario, const Program& program) {
  const auto in_force = schedule_in_force(scenario);
  if (!in_force) return tl::unexpected(in_force.error());
  const auto cut =
      cut_model(scenario.model, scenario.partition, scenario.shape.stages, scenario.shape.buckets);
  if (!cut) return tl::unexpected(cut.error());
  return program_costs(price_terms(scenario, in_force->batch), *cut, program);
}

tl::expected<RolledExperiment, PrepareError> prepare_rolled(const Scenario& stated) {
  const auto refused = [&](const std::string& fault) { return bad_input(stated.file, fault); };
  const auto settled = settle(stated);
  if (!settled) return tl::unexpected(refused(settled.error()));
  if (const std::string reason = not_rolled(settled->scenario); !reason.empty()) {
    return tl::unexpected(
        refused(fmt::format("{} cannot be streamed, and at most 2^29 compute actions are "
                            "stored; take fewer stages, microbatches or iterations",
                            reason)));
  }
  const auto in_force = schedule_in_force(settled->scenario);
  if (!in_force) return tl::unexpected(refused(in_force.error()));
  auto rolled = generate_loops(in_force->schedule.name, in_force->schedule.shape);
  if (!rolled) return tl::unexpected(refused(rolled.error()));
  auto resolved = resolve(settled->scenario, *in_force, std::move(rolled->program));
  if (!resolved) return tl::unexpected(refused(resolved.error()));
  auto experiment = priced(*settled, *resolved, std::move(resolved->program));
  if (!experiment) return tl::unexpected(refused(experiment.error()));
  return RolledExperiment{.experiment = *std::move(experiment), .lists = std::move(rolled->lists)};
}

double compute_actions(const Scenario& scenario) {
  // A model with copies of its own says its microbatches only when it is priced; its runs are stored.
  if (scenario.program || std::holds_alternative<DeviceModel>(scenario.model) ||
      std::holds_alternative<FittedModel>(scenario.model))
    return 0;
  const auto in_force = schedule_in_force(scenario);
  return in_force ? compute_actions(in_force->schedule.name, in_force->schedule.shape) : 0;
}

}  // namespace penstock
