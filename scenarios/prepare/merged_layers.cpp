// Partitioners go through the downsets of a graph, of which one that branches widely has too many; a chain of
// merged layers has one more than layers.

#include "scenarios/prepare/merged_layers.hpp"

#include <utility>
#include <variant>

#include <fmt/format.h>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/layer_graph_downsets.hpp"
#include "scenarios/partition/merged_branches.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

Scenario with_merged_branches(Scenario scenario) {
  const auto* graph = std::get_if<LayerGraph>(&scenario.model);
  if (graph == nullptr || can_be_planned_over(*graph)) return scenario;
  MergedGraph merged = merged_branches(*graph);
  scenario.notes.push_back(fmt::format(
      "the model's {} layers branch too widely to be planned one by one: parallel branches are merged, "
      "which leaves {} layers to cut between",
      graph->layers.size(), merged.graph.layers.size()));
  scenario.model = std::move(merged.graph);
  return scenario;
}

}  // namespace penstock
