// Turns a Scenario into an Experiment. Each step takes only the parts of the scenario that it needs:
//
//   Scenario -> one copy of the pipeline, with planned cuts
//            -> schedule and batch in force                              (begin_preparation() ends here)
//            -> placed program, as lists or as loops
//            -> settled scenario: costs of stages, if the model is on devices or has fitted costs
//            -> resolved scenario: cut of the model, compute program
//            -> program with the model's edges, validated and lowered, if the caller wants this form
//            -> costs on the cluster -> Experiment
//
// The error message of a step may lack the scenario's file name, and this file adds it. Assumptions and
// scaled figures become notes of the experiment.
#include "scenarios/prepare/experiment.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/cut.hpp"
#include "scenarios/prepare/model_stages.hpp"
#include "scenarios/prepare/prepared_program.hpp"
#include "scenarios/prepare/priced_scenario.hpp"
#include "scenarios/prepare/program_prices.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/return_if_error.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

using Prepared = tl::expected<Experiment, UserError>;

/// Returns the error with the name of the scenario's file at the front, unless the message already starts
/// with a file or a flag. The code that reads the file has already added file, line and key. Later steps have
/// only the key.
UserError in_file(const std::string& file, UserError error) {
  const bool has_place =
      file.empty() || error.message.starts_with(file) || error.message.starts_with("--set ");
  if (!has_place) error.message = fmt::format("{}: {}", file, error.message);
  return error;
}

/// Returns the result of one step of the preparation. An error message becomes a UserError for bad input.
template <class Value>
tl::expected<Value, UserError> input(tl::expected<Value, std::string> step) {
  return std::move(step).map_error([](std::string fault) { return UserError{.message = std::move(fault)}; });
}

/// Returns the number of compute actions in a program's lists, times the number of iterations.
double listed_actions(const Program& program, std::int32_t iterations) {
  std::ptrdiff_t actions = 0;
  for (const std::vector<Action>& list : program.ranks)
    actions += std::ranges::count_if(list, [](const Action& action) { return is_compute(action.kind); });
  return static_cast<double>(actions) * std::max(program.iterations, iterations);
}

bool is_priced_by_one_copy(const Model& model) {
  return std::holds_alternative<DeviceModel>(model) || std::holds_alternative<FittedModel>(model);
}

double actions_in_force(const Scenario& scenario, const ScheduleInForce& in_force) {
  if (scenario.program) return listed_actions(*scenario.program, scenario.shape.iterations);
  return compute_actions(in_force.schedule.name, in_force.schedule.shape);
}

/// Determines the schedule and the batch of one copy of the pipeline. The error messages do not name the
/// scenario's file.
tl::expected<Preparation, UserError> preparation_of(OneCopy copy) {
  // `in_force` points to the program in the copy's scenario, so this scenario must not move in memory.
  auto shared = std::make_shared<const OneCopy>(std::move(copy));
  PENSTOCK_ASSIGN_OR_RETURN(ScheduleInForce in_force,
                            input(schedule_in_force(shared->scenario, shared->copies)));
  const double actions = actions_in_force(shared->scenario, in_force);
  return Preparation{.copy = std::move(shared), .in_force = std::move(in_force), .compute_actions = actions};
}

/// The program of the schedule that is used, with each stage on its rank. The lists of `program` are empty
/// if `loops` contains the actions, or if the order of the schedule depends on costs.
struct PlacedForm {
  Program program;
  std::vector<ActionLoops> loops{};
};

tl::expected<PlacedForm, std::string> placed_form(const StatedSchedule& schedule, bool as_loops) {
  if (as_loops) {
    return generate_loops(schedule.name, schedule.shape).map([](RolledProgram rolled) {
      return PlacedForm{.program = std::move(rolled.program), .loops = std::move(rolled.lists)};
    });
  }
  return placed_stages(schedule).map(
      [](Program program) { return PlacedForm{.program = std::move(program)}; });
}

/// Returns true if the program's lists must be validated and completed with SENDs and RECVs before their
/// costs are computed. This is the case for program files and for models with edges. A schedule's rule
/// guarantees valid lists only if the stages form a chain.
bool is_lowered_early(const Scenario& scenario, ProgramForm form) {
  return form == ProgramForm::lowered || scenario.program || has_edges(scenario.model);
}

/// Runs all steps after begin_preparation(). The error messages do not name the file.
Prepared prepared(const Preparation& begun, ProgramForm form) {
  const std::string why_lists = form == ProgramForm::lowered ? std::string() : why_no_loops(begun);
  const bool as_loops = form == ProgramForm::loops && why_lists.empty();
  PENSTOCK_ASSIGN_OR_RETURN(PlacedForm placed, input(placed_form(begun.in_force.schedule, as_loops)));
  PENSTOCK_ASSIGN_OR_RETURN(const SettledScenario settled,
                            input(settle(*begun.copy, begun.in_force, placed.program)));
  PENSTOCK_ASSIGN_OR_RETURN(ResolvedScenario resolved,
                            input(resolve(settled.scenario, begun.in_force, std::move(placed.program))));
  Program program = std::move(resolved.program);
  if (!as_loops && is_lowered_early(settled.scenario, form)) {
    PENSTOCK_ASSIGN_OR_RETURN(
        program, lowered_program(std::move(program), settled.scenario.model, settled.scenario.channels));
  }
  PENSTOCK_ASSIGN_OR_RETURN(Experiment experiment,
                            input(priced_experiment(settled, resolved, std::move(program))));
  if (auto fault = message_size_fault(settled.scenario.model, resolved.cut, resolved.terms.pricing.samples,
                                      experiment.program, experiment.costs)) {
    return tl::unexpected(UserError{.kind = ErrorKind::check_failed, .message = *std::move(fault)});
  }
  experiment.loops = std::move(placed.loops);
  experiment.why_lists = why_lists;
  experiment.compute_actions = begun.compute_actions;
  experiment.source = begun.copy;
  return experiment;
}

std::int64_t& preparations() {
  static thread_local std::int64_t count = 0;
  return count;
}

}  // namespace

std::int64_t preparations_so_far() { return preparations(); }

tl::expected<Preparation, UserError> begin_preparation(const Scenario& scenario) {
  ++preparations();
  auto copy = one_copy(scenario);
  if (!copy) return tl::unexpected(in_file(scenario.file, UserError{.message = copy.error()}));
  return preparation_of(*std::move(copy)).map_error([&](UserError error) {
    return in_file(scenario.file, std::move(error));
  });
}

Prepared prepare(const Preparation& begun, ProgramForm form) {
  return prepared(begun, form).map_error([&](UserError error) {
    return in_file(begun.copy->scenario.file, std::move(error));
  });
}

Prepared prepare(const Scenario& scenario, ProgramForm form) {
  return begin_preparation(scenario).and_then([&](const Preparation& begun) { return prepare(begun, form); });
}

std::string why_no_loops(const Preparation& begun) {
  const Scenario& scenario = begun.copy->scenario;
  const ScheduleInfo* schedule = find_schedule(scenario.schedule);
  if (scenario.program || schedule == nullptr) return "a program file";
  if (schedule->weighs_costs) return "a schedule that weighs what stages cost";
  if (!scenario.shape.buckets.empty()) return "stages in buckets";
  if (scenario.clones_versions) return "clones of weights, which are counted in a stored program,";
  return has_edges(scenario.model) ? "stage edges of the model" : "";
}

Prepared with_microbatches(const Experiment& experiment, std::int64_t microbatches, ProgramForm form) {
  if (!experiment.source) return bad_input("the experiment was not prepared from a scenario");
  OneCopy copy = *experiment.source;
  copy.scenario.shape.iterations = 1;
  // A microbatch has as many samples as in the experiment, even if the scenario states another batch.
  copy.scenario.batch.micro_batch_size = static_cast<std::int64_t>(experiment.samples_per_microbatch);
  copy.scenario.batch.global_batch_size.reset();
  copy.scenario.batch.microbatches = microbatches;
  return preparation_of(std::move(copy)).and_then([&](const Preparation& begun) {
    return prepare(begun, form);
  });
}

Experiment with_lists(Experiment experiment) {
  if (experiment.loops.empty()) return experiment;
  experiment.program =
      unrolled({.program = std::move(experiment.program), .lists = std::exchange(experiment.loops, {})});
  return experiment;
}

Prepared lowered(Experiment experiment) {
  experiment = with_lists(std::move(experiment));
  if (has_transfers(experiment.program)) return experiment;
  const auto invalid = [&](const std::string& reason) {
    const std::string file = experiment.source ? experiment.source->scenario.file : "";
    return in_file(file, UserError{.kind = ErrorKind::check_failed, .message = reason});
  };
  if (auto valid = validate(experiment.program); !valid) return tl::unexpected(invalid(valid.error()));
  auto program = lower(experiment.program, experiment.channels);
  if (!program) return tl::unexpected(invalid(program.error()));
  experiment.program = *std::move(program);
  return experiment;
}

double compute_actions(const Scenario& scenario) {
  if (scenario.program) return listed_actions(*scenario.program, scenario.shape.iterations);
  // If is_priced_by_one_copy() is true, the copies share the batch, so their number must be known. For other
  // models one_copy() is not called, because it may plan a partition, which takes too long here.
  std::optional<std::int32_t> copies;
  if (is_priced_by_one_copy(scenario.model)) {
    const auto copy = one_copy(scenario);
    if (!copy) return 0;
    copies = copy->copies;
  }
  const auto in_force = schedule_in_force(scenario, copies);
  return in_force ? compute_actions(in_force->schedule.name, in_force->schedule.shape) : 0;
}

// If a rank is a group of devices, its name is that of one device of the group.

std::vector<std::string> rank_devices(const Experiment& experiment) {
  const std::vector<Device>& devices = experiment.cluster.devices();
  std::vector<std::string> names(static_cast<std::size_t>(experiment.program.rank_count()));
  for (std::size_t rank = 0; rank < std::min(names.size(), devices.size()); ++rank) {
    names[rank] = devices[rank].name;
  }
  return names;
}

// The search for a small shape that hangs tries fewer ranks first, then fewer chunks, then fewer
// microbatches. A program of few ranks is easier to read.

namespace {

/// The largest total number of actions in the shapes that are tried in the search for a smaller hanging
/// program. One action takes about a microsecond.
constexpr std::int64_t kMostActions = 5'000'000;

std::optional<Experiment> hanging_experiment(Scenario scenario, const Shape& shape) {
  scenario.shape = shape;
  scenario.batch.microbatches = shape.microbatches;
  scenario.batch.global_batch_size
      .reset();  // the global batch size then follows from the number of microbatches
  auto experiment = prepare(scenario);
  if (!experiment || !find_hang(experiment->program, experiment->channels, experiment->costs)) {
    return std::nullopt;
  }
  return *std::move(experiment);
}

}  // namespace

ShapedExperiment smallest_hanging_shape(const Scenario& scenario, Experiment hanging) {
  Shape whole = scenario.shape;
  whole.microbatches = hanging.program.microbatches;
  Shape tried = whole;
  std::int64_t actions = 0;
  for (tried.stages = 1; tried.stages <= whole.stages; ++tried.stages) {
    for (tried.virtual_stages = 1; tried.virtual_stages <= whole.virtual_stages; ++tried.virtual_stages) {
      for (tried.microbatches = 1; tried.microbatches <= whole.microbatches; ++tried.microbatches) {
        // F and B have one compute action each, and each of their messages has a SEND and a RECV.
        actions += std::int64_t{6} * tried.stages * tried.virtual_stages * tried.microbatches;
        if (actions > kMostActions) return {.experiment = std::move(hanging), .shape = whole};
        if (auto found = hanging_experiment(scenario, tried)) {
          return {.experiment = *std::move(found), .shape = tried};
        }
      }
    }
  }
  return {.experiment = std::move(hanging), .shape = whole};
}

// Builds the Experiment. It contains everything that an engine or a backend needs. So neither of them
// reads the scenario:
//
//   program + its prices and cluster + the scenario's channels, network and price

// --- experiment notes ------------------------------------------------------------------------------------
//
// A note does not contain the microbatch size in force or M. All points of a sweep over these values
// therefore have the same note.

namespace {

bool has_overhead(const Model& model) {
  if (const auto* graph = std::get_if<LayerGraph>(&model)) return graph->overhead_ns > 0;
  const auto* figures = std::get_if<StageFigures>(&model);
  return figures != nullptr && std::ranges::any_of(figures->overhead.values, [](Ns ns) { return ns > 0; });
}

/// Returns a note which says that figures were scaled to another microbatch size. Returns nothing if the
/// figures hold for the microbatch size that is used.
std::optional<std::string> scaling_note(const Model& model, const Scaling& samples) {
  if (samples.wanted == samples.own) return std::nullopt;
  const std::string own = samples.own == 1 ? "one sample" : fmt::format("{} samples", samples.own);
  return std::holds_alternative<UnitCosts>(model)
             ? fmt::format(
                   "no model is given: {} takes F = I = W = 1 ms and B = 2 ms for {}, and times and bytes "
                   "are scaled linearly to the microbatch's size",
                   std::get<UnitCosts>(model).unit == CostUnit::stage ? "a stage"
                                                                      : "a rank's share of the model",
                   own)
             : fmt::format(
                   "the model's times and bytes hold for {} a microbatch and are scaled linearly to "
                   "the microbatch's size, {}",
                   own, has_overhead(model) ? "overhead apart" : "with overhead 0");
}

}  // namespace

std::optional<std::string> chunks_note(const Scenario& scenario) {
  const ScheduleInfo* schedule = scenario.program ? nullptr : find_schedule(scenario.schedule);
  if (schedule == nullptr || schedule->default_chunks == 1) return std::nullopt;
  if (scenario.shape.virtual_stages == 1) {
    return fmt::format("v is 1: {} does not interleave anything{}", schedule->name,
                       schedule->name == "interleaved" ? " and takes 1F1B's time in more memory" : "");
  }
  if (scenario.states_chunks) return std::nullopt;
  return fmt::format("v is not given: {} takes {} chunks a rank (--virtual-stages)", schedule->name,
                     scenario.shape.virtual_stages);
}

std::vector<std::string> experiment_notes(const NotesTerms& terms) {
  std::optional<std::string> scaling = scaling_note(terms.model, terms.samples);
  std::vector<std::string> notes = terms.of_scenario;
  if (const auto* figures = std::get_if<StageFigures>(&terms.model)) {
    const auto most = static_cast<std::size_t>(terms.microbatches);
    for (const auto& [length, place] : figures->microbatch_lists(terms.slices)) {
      if (length == most) continue;
      std::string note =
          fmt::format("{}: {} microbatches are listed, {}", place, length,
                      length < most ? "which repeat up to M" : "of which the first M are taken");
      // The lists of all stages may come from one CSV file, so their notes may be equal. Equal notes are
      // added once.
      if (std::ranges::find(notes, note) == notes.end()) notes.push_back(std::move(note));
    }
  }
  if (terms.of_chunks) notes.push_back(*terms.of_chunks);
  notes.insert(notes.end(), terms.of_schedule.begin(), terms.of_schedule.end());
  if (scaling) notes.push_back(*std::move(scaling));
  return notes;
}

// --- priced experiment -----------------------------------------------------------------------------------

namespace {

/// Returns the names of the layers in each stage of the program. Entry i of `ends` is the number of layers
/// up to the end of stage i.
std::vector<std::vector<std::string>> names_of_layers(const LayerGraph& graph,
                                                      const std::vector<std::int32_t>& ends) {
  std::vector<std::vector<std::string>> names(ends.size());
  std::size_t layer = 0;
  for (std::size_t stage = 0; stage < names.size(); ++stage) {
    for (; layer < static_cast<std::size_t>(ends[stage]); ++layer)
      names[stage].push_back(graph.layers[layer].name);
  }
  return names;
}

/// Returns the neural network with the layers of each stage. Returns nothing if the scenario states only
/// times and bytes.
std::optional<StagedNetwork> staged_network(const Scenario& scenario, const std::vector<std::int32_t>& ends) {
  if (!scenario.network) return std::nullopt;
  const auto* graph = std::get_if<LayerGraph>(&scenario.model);
  StagedNetwork network{.spec = *scenario.network, .layers = {}, .optimizer = scenario.optimizer};
  if (graph != nullptr) network.layers = names_of_layers(*graph, ends);
  return network;
}

}  // namespace

tl::expected<Experiment, std::string> priced_experiment(const SettledScenario& settled,
                                                        const ResolvedScenario& resolved, Program program) {
  const Scenario& scenario = settled.scenario;
  std::optional<StagedNetwork> network = staged_network(scenario, resolved.cut.ends);
  auto prices = program_prices(resolved.terms, resolved.cut, program);
  if (!prices) return tl::unexpected(prices.error());
  const Scaling& samples = resolved.terms.pricing.samples;
  std::vector<std::string> notes = experiment_notes({.of_scenario = scenario.notes,
                                                     .of_schedule = resolved.notes,
                                                     .model = scenario.model,
                                                     .samples = samples,
                                                     .microbatches = program.microbatches,
                                                     .slices = program.slices,
                                                     .of_chunks = chunks_note(scenario)});
  return Experiment{
      .name = scenario.file.empty() ? program.schedule : scenario.file,
      .program = std::move(program),
      .costs = std::move(prices->costs),
      .cluster = std::move(prices->cluster),
      .channels = scenario.channels,
      // All copies of the pipeline run one microbatch each at the same time, so their samples are added.
      .samples_per_microbatch = static_cast<double>(samples.wanted) * settled.copies,
      .copies = settled.copies,
      .notes = std::move(notes),
      .price_per_device_hour = scenario.cluster.price_per_device_hour,
      .counts_activations = std::holds_alternative<UnitCosts>(scenario.model),
      .pipeline_size = scenario.program ? 0 : scenario.shape.stages,
      .trained = settled.trained,
      .prompt_tokens = scenario.prompt_tokens,
      .network = std::move(network)};
}

}  // namespace penstock
