// Builds the Experiment. It contains everything that an engine or a backend needs. So neither of them
// reads the scenario:
//
//   program + its prices and cluster + the scenario's channels, network and price

#include "scenarios/prepare/priced_experiment.hpp"

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

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/model_stages.hpp"
#include "scenarios/prepare/prepared_program.hpp"
#include "scenarios/prepare/priced_scenario.hpp"
#include "scenarios/prepare/program_prices.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

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
      // A CSV file contains one list for each stage, and the notes of these lists are equal. Only one of them
      // is added.
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
      .notes = std::move(notes),
      .price_per_device_hour = scenario.cluster.price_per_device_hour,
      .counts_activations = std::holds_alternative<UnitCosts>(scenario.model),
      .pipeline_size = scenario.program ? 0 : scenario.shape.stages,
      .trained = settled.trained,
      .prompt_tokens = scenario.prompt_tokens,
      .network = std::move(network)};
}

}  // namespace penstock
