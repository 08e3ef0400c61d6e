// An experiment says all that an engine or a backend asks, so that neither goes back to the scenario:
//
//   program + its prices and cluster + what the scenario says of its channels, its network and its price

#include "scenarios/prepare/priced_experiment.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/experiment_notes.hpp"
#include "scenarios/prepare/program_prices.hpp"
#include "scenarios/prepare/resolved_scenario.hpp"
#include "scenarios/prepare/scaling.hpp"
#include "scenarios/prepare/settled_scenario.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

/// By stage of the program the names of its layers, whose ends these are.
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

/// Nothing where the model is times and bytes alone.
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
                                                     .of_chunks = chunks_note(scenario)});
  return Experiment{.name = scenario.file.empty() ? program.schedule : scenario.file,
                    .program = std::move(program),
                    .costs = std::move(prices->costs),
                    .cluster = std::move(prices->cluster),
                    .channels = scenario.channels,
                    // The other copies run one of their own at the same time.
                    .samples_per_microbatch = static_cast<double>(samples.wanted) * settled.copies,
                    .notes = std::move(notes),
                    .price_per_device_hour = scenario.cluster.price_per_device_hour,
                    .counts_activations = std::holds_alternative<UnitCosts>(scenario.model),
                    .pipeline_size = scenario.program ? 0 : scenario.shape.stages,
                    .trained = settled.trained,
                    .network = std::move(network)};
}

}  // namespace penstock
