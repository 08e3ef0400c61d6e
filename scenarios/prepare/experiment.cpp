// A Scenario is taken apart here; each step takes the parts that it needs and makes one value, once:
//
//   Scenario -> plan its cuts -> batch -> program with the model's stages -> their cut -> compute program
//            -> with the model's edges, valid, lowered -> its costs -> cluster -> Experiment
//
// A step may end with an error in words; what was assumed or scaled becomes a note of the experiment.

#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/byte_range.hpp"

#include <algorithm>
#include <cstddef>
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
#include "scenarios/prepare/device_prices.hpp"
#include "scenarios/prepare/fitted_prices.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "scenarios/prepare/scaling.hpp"
#include "scenarios/prepare/stage_costs.hpp"
#include "scenarios/prepare/stage_cut.hpp"
#include "scenarios/prepare/time_range.hpp"
#include "scenarios/read/batch.hpp"
#include "scenarios/read/cluster_spec.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/check/weight_versions.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/lower.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {
namespace {

template <typename Value>
using OrError = tl::expected<Value, std::string>;

/// The message with the scenario's file in front, unless it starts with a place already.
tl::unexpected<PrepareError> bad_input(const std::string& file, const std::string& message) {
  const bool has_place = file.empty() || message.starts_with(file) || message.starts_with("--set ");
  return tl::unexpected(PrepareError{.message = has_place ? message : fmt::format("{}: {}", file, message)});
}

tl::unexpected<PrepareError> invalid_program(const std::string& file, const std::string& message) {
  PrepareError error = bad_input(file, message).value();
  error.invalid = true;
  return tl::unexpected(std::move(error));
}

// --- what is left open, settled before anything is priced -------------------------------------------------

/// A program file states its number of microbatches itself.
OrError<ResolvedBatch> batch_in_force(Batch batch, const std::string& schedule, const Program* program) {
  if (program == nullptr) return resolve_batch(batch, meaning_of_microbatch(schedule));
  if (batch.microbatches && *batch.microbatches != program->microbatches) {
    return tl::unexpected(fmt::format("schedule.microbatches: the program has {}, got {}; leave the key out",
                                      program->microbatches, *batch.microbatches));
  }
  batch.microbatches = program->microbatches;
  return resolve_batch(batch, meaning_of_microbatch(program->schedule));
}

/// What a scenario leaves open, and its program, which says how many stages there are to cut into.
struct Resolved {
  ResolvedBatch batch;
  Pricing pricing;
  Program program;  ///< compute actions alone
  StageCut cut;
  std::vector<std::string> notes;  ///< of the schedule
};

/// The schedule that a scenario states, with its microbatches in force.
struct StatedBatch {
  ResolvedBatch batch;
  StatedSchedule schedule;
};

OrError<StatedBatch> stated_batch(const Scenario& scenario) {
  StatedSchedule schedule{.program = scenario.program ? &*scenario.program : nullptr,
                          .name = scenario.schedule,
                          .shape = scenario.shape};
  const auto batch = batch_in_force(scenario.batch, schedule.name, schedule.program);
  if (!batch) return tl::unexpected(batch.error());
  schedule.shape.microbatches = batch->microbatches;
  return StatedBatch{.batch = *batch, .schedule = std::move(schedule)};
}

Pricing pricing_of(const Scenario& scenario, const ResolvedBatch& batch) {
  return {.samples = {.own = scenario.batch.own_micro_batch_size, .wanted = batch.micro_batch_size},
          .beside = bytes_per_weight_byte(scenario.optimizer, scenario.precision)};
}

OrError<Resolved> resolve(const Scenario& scenario, const StatedBatch& stated, Program placed) {
  auto cut = cut_model(scenario.model, scenario.partition, placed.stage_count(), scenario.shape.buckets);
  if (!cut) return tl::unexpected(cut.error());
  const Pricing pricing = pricing_of(scenario, stated.batch);
  auto computed = compute_program(stated.schedule, std::move(placed), *cut,
                                  {.model = scenario.model, .pricing = pricing, .cluster = scenario.cluster});
  if (!computed) return tl::unexpected(computed.error());
  return Resolved{.batch = stated.batch,
                  .pricing = pricing,
                  .program = std::move(computed->program),
                  .cut = *std::move(cut),
                  .notes = std::move(computed->notes)};
}

OrError<Resolved> resolve(const Scenario& scenario) {
  auto stated = stated_batch(scenario);
  if (!stated) return tl::unexpected(stated.error());
  auto placed = placed_program(stated->schedule);
  if (!placed) return tl::unexpected(placed.error());
  return resolve(scenario, *stated, *std::move(placed));
}

// --- the program ------------------------------------------------------------------------------------------

/// Puts the edges that the model states into the program.
OrError<Program> with_model_edges(Program program, const Model& model) {
  const auto* figures = std::get_if<StageFigures>(&model);
  if (figures == nullptr || figures->edges.empty()) return program;
  std::vector<StageEdge> edges = figures->edges;
  std::ranges::sort(edges);
  if (!program.edges.empty() && program.edges != edges) {
    return tl::unexpected(std::string(
        "model.stages.edges: the schedule's program has stage edges of its own; leave the key out"));
  }
  for (const StageEdge& edge : edges) {
    if (edge.to >= program.stage_count()) {
      return tl::unexpected(
          fmt::format("model.stages.edges: the edge [{}, {}] names a stage beyond the last, {}", edge.from,
                      edge.to, program.stage_count() - 1));
    }
  }
  program.edges = std::move(edges);
  return program;
}

tl::expected<Program, PrepareError> lowered_program(Program compute, const Model& model,
                                                    const std::string& file) {
  const auto program = with_model_edges(std::move(compute), model);
  if (!program) return bad_input(file, program.error());
  if (auto valid = validate(*program); !valid) return invalid_program(file, valid.error());
  auto lowered = lower(*program);
  if (!lowered) return invalid_program(file, lowered.error());
  return *std::move(lowered);
}

// --- what is said of it -----------------------------------------------------------------------------------

bool has_overhead(const Model& model) {
  if (const auto* graph = std::get_if<LayerGraph>(&model)) return graph->overhead_ns > 0;
  const auto* figures = std::get_if<StageFigures>(&model);
  return figures != nullptr && std::ranges::any_of(figures->overhead.values, [](Ns ns) { return ns > 0; });
}

/// Says nothing of the wanted size itself, so that a sweep can say it once for all sizes.
std::vector<std::string> with_scaling_note(std::vector<std::string> notes, const Model& model,
                                           const Scaling& samples) {
  if (samples.wanted == samples.own) return notes;
  const std::string own = samples.own == 1 ? "one sample" : fmt::format("{} samples", samples.own);
  notes.push_back(
      std::holds_alternative<UnitCosts>(model)
          ? fmt::format("no model is given: F, I and W take 1 ms and B 2 ms for {}, and times and bytes are "
                        "scaled linearly to the microbatch's size",
                        own)
          : fmt::format("the model's times and bytes hold for {} a microbatch and are scaled linearly to the "
                        "microbatch's size, {}",
                        own, has_overhead(model) ? "overhead apart" : "with overhead 0"));
  return notes;
}

/// Says where lists of one figure a microbatch are shorter or longer than M, and what a program takes then.
std::vector<std::string> with_microbatch_notes(std::vector<std::string> notes, const Model& model,
                                               std::int32_t microbatches) {
  const auto* figures = std::get_if<StageFigures>(&model);
  if (figures == nullptr) return notes;
  const auto most = static_cast<std::size_t>(microbatches);
  for (const auto& [length, place] : figures->microbatch_lists()) {
    if (length == most) continue;
    // Without M, so that a sweep over M says it once.
    std::string note = fmt::format("{}: {} microbatches are listed, {}", place, length,
                                   length < most ? "which repeat up to M" : "of which the first M are taken");
    if (std::ranges::find(notes, note) == notes.end()) notes.push_back(std::move(note));
  }
  return notes;
}

std::optional<StagedNetwork> staged_network(const Scenario& scenario, const StageCut& cut) {
  if (!scenario.network) return std::nullopt;
  const auto* graph = std::get_if<LayerGraph>(&scenario.model);
  StagedNetwork network{.spec = *scenario.network, .layers = {}, .optimizer = scenario.optimizer};
  if (graph != nullptr) network.layers = layers_of_stages(*graph, cut);
  return network;
}

/// PipeDream's released runtime clones warm-up + 1 versions of a stage's weights when it starts, the newest
/// of which equals the live ones.
tl::expected<void, std::string> clone_versions(CostTable& costs, const Program& program) {
  const std::vector<StageVersions> versions = weight_versions(program).stages;
  std::vector<std::vector<StageCost>*> tables = {&costs.stages};
  for (MicrobatchCost& microbatch : costs.microbatches) tables.push_back(&microbatch.stages);
  for (std::vector<StageCost>* stages : tables) {
    for (std::size_t stage = 0; stage < stages->size(); ++stage) {
      StageCost& cost = (*stages)[stage];
      if (!__builtin_mul_overflow(cost.weights, Bytes{versions[stage].kept}, &cost.cloned_weights)) continue;
      return tl::unexpected(
          fmt::format("training.weight_versions: {} clones of stage {}'s weights are more than 2^63 bytes",
                      versions[stage].kept, stage));
    }
  }
  return {};
}

/// Prices a program on its cluster. `file` is for messages.
tl::expected<Experiment, PrepareError> priced(const Scenario& scenario, const Resolved& resolved,
                                              Program program, const std::string& file) {
  auto costs = cost_table(scenario.model, resolved.cut, resolved.pricing, program);
  if (!costs) return bad_input(file, costs.error());
  costs->launch = scenario.launch;
  if (scenario.clones_versions) {
    if (const auto cloned = clone_versions(*costs, program); !cloned) return bad_input(file, cloned.error());
  }
  auto cluster = build_cluster(scenario.cluster, program.rank_count());
  if (!cluster) return bad_input(file, cluster.error());
  if (const auto fault = byte_fault(program, *costs)) return bad_input(file, *fault);
  if (const auto fault = time_fault(program, *costs, *cluster)) return bad_input(file, *fault);
  std::vector<std::string> notes =
      with_microbatch_notes(scenario.notes, scenario.model, program.microbatches);
  notes.insert(notes.end(), resolved.notes.begin(), resolved.notes.end());
  const std::string name = file.empty() ? program.schedule : file;
  return Experiment{.name = name,
                    .program = std::move(program),
                    .costs = *std::move(costs),
                    .cluster = *std::move(cluster),
                    .channels = scenario.channels,
                    .samples_per_microbatch = static_cast<double>(resolved.batch.micro_batch_size),
                    .notes = with_scaling_note(std::move(notes), scenario.model, resolved.pricing.samples),
                    .price_per_device_hour = scenario.cluster.price_per_device_hour,
                    .counts_activations = std::holds_alternative<UnitCosts>(scenario.model),
                    .network = staged_network(scenario, resolved.cut)};
}

/// True where the model states edges of its own, which no schedule's rule knows of.
bool has_edges(const Model& model) {
  const auto* figures = std::get_if<StageFigures>(&model);
  return figures != nullptr && !figures->edges.empty();
}

/// What keeps a scenario from being prepared as loops; empty: nothing.
std::string not_rolled(const Scenario& scenario) {
  const ScheduleInfo* schedule = find_schedule(scenario.schedule);
  if (scenario.program || schedule == nullptr) return "a program file";
  if (schedule->weighs_costs) return "a schedule that weighs what stages cost";
  if (!scenario.shape.buckets.empty()) return "stages in buckets";
  return has_edges(scenario.model) ? "stage edges of the model" : "";
}

}  // namespace

namespace {

/// What is made of the program that a schedule gives.
enum class ProgramForm : std::uint8_t { lowered, as_generated };

tl::expected<Experiment, PrepareError> prepared(const Scenario& stated, ProgramForm form);

tl::expected<Experiment, PrepareError> prepare_on_devices(const Scenario& stated, const DeviceModel& model,
                                                          ProgramForm form) {
  const auto priced = price_on_devices(stated, model);
  if (!priced) return bad_input(stated.file, priced.error());
  auto experiment = prepared(priced->scenario, form);
  if (!experiment) return experiment;
  experiment->samples_per_microbatch *= priced->trained.copies;
  experiment->trained = priced->trained;
  return experiment;
}

tl::expected<Experiment, PrepareError> prepare_by_fit(const Scenario& stated, const FittedModel& model,
                                                      ProgramForm form) {
  const auto priced = price_by_fit(stated, model);
  if (!priced) return bad_input(stated.file, priced.error());
  auto experiment = prepared(*priced, form);
  if (experiment) experiment->samples_per_microbatch *= model.copies;
  return experiment;
}

tl::expected<Experiment, PrepareError> prepared(const Scenario& stated, ProgramForm form) {
  if (const auto* model = std::get_if<DeviceModel>(&stated.model))
    return prepare_on_devices(stated, *model, form);
  if (const auto* model = std::get_if<FittedModel>(&stated.model))
    return prepare_by_fit(stated, *model, form);
  const auto scenario = with_planned_partition(stated);
  if (!scenario) return bad_input(stated.file, scenario.error());
  auto resolved = resolve(*scenario);
  if (!resolved) return bad_input(stated.file, resolved.error());
  if (form == ProgramForm::as_generated && !has_edges(scenario->model)) {
    Program program = std::move(resolved->program);
    return priced(*scenario, *resolved, std::move(program), stated.file);
  }
  auto program = lowered_program(std::move(resolved->program), scenario->model, stated.file);
  if (!program) return tl::unexpected(program.error());
  return priced(*scenario, *resolved, *std::move(program), stated.file);
}

}  // namespace

tl::expected<Experiment, PrepareError> prepare(const Scenario& stated) {
  return prepared(stated, ProgramForm::lowered);
}

tl::expected<Experiment, PrepareError> prepare_as_generated(const Scenario& stated) {
  return prepared(stated, stated.program ? ProgramForm::lowered : ProgramForm::as_generated);
}

tl::expected<CostTable, std::string> costs_of_cut(const Scenario& scenario, const Program& program) {
  const auto batch = batch_in_force(scenario.batch, scenario.schedule, nullptr);
  if (!batch) return tl::unexpected(batch.error());
  const auto cut =
      cut_model(scenario.model, scenario.partition, scenario.shape.stages, scenario.shape.buckets);
  if (!cut) return tl::unexpected(cut.error());
  auto costs = cost_table(scenario.model, *cut, pricing_of(scenario, *batch), program);
  if (costs) costs->launch = scenario.launch;
  return costs;
}

tl::expected<RolledExperiment, PrepareError> prepare_rolled(const Scenario& stated) {
  const auto scenario = with_planned_partition(stated);
  if (!scenario) return bad_input(stated.file, scenario.error());
  if (const std::string reason = not_rolled(*scenario); !reason.empty()) {
    return bad_input(stated.file, fmt::format("{} cannot be streamed, and at most 2^29 compute actions are "
                                              "stored; take fewer stages, microbatches or iterations",
                                              reason));
  }
  const auto batch = stated_batch(*scenario);
  if (!batch) return bad_input(stated.file, batch.error());
  auto rolled = generate_loops(batch->schedule.name, batch->schedule.shape);
  if (!rolled) return bad_input(stated.file, rolled.error());
  auto resolved = resolve(*scenario, *batch, std::move(rolled->program));
  if (!resolved) return bad_input(stated.file, resolved.error());
  auto experiment = priced(*scenario, *resolved, std::move(resolved->program), stated.file);
  if (!experiment) return tl::unexpected(experiment.error());
  return RolledExperiment{.experiment = *std::move(experiment), .lists = std::move(rolled->lists)};
}

double compute_actions(const Scenario& scenario) {
  // A model with copies of its own says its microbatches only when it is priced; its runs are stored.
  if (scenario.program || std::holds_alternative<DeviceModel>(scenario.model) ||
      std::holds_alternative<FittedModel>(scenario.model))
    return 0;
  const auto stated = stated_batch(scenario);
  return stated ? compute_actions(stated->schedule.name, stated->schedule.shape) : 0;
}

}  // namespace penstock
