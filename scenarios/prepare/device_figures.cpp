// A table of costs that was priced becomes figures as if they had been written, one of a list for each stage.

#include "scenarios/prepare/device_figures.hpp"

#include "scenarios/model/model.hpp"
#include "schedules/ir/cost_table.hpp"

namespace penstock {
namespace {

template <typename Value>
PerStage<Value> figures_by_stage(const CostTable& costs, Value StageCost::* figure) {
  PerStage<Value> figures{.values = {}, .is_list = true, .place = "model"};
  for (const StageCost& cost : costs.stages) figures.values.push_back(cost.*figure);
  return figures;
}

}  // namespace

StageFigures figures_of_stages(const CostTable& costs) {
  StageFigures figures;
  figures.forward = figures_by_stage(costs, &StageCost::forward_ns);
  figures.backward_input = figures_by_stage(costs, &StageCost::backward_input_ns);
  figures.backward_weight = figures_by_stage(costs, &StageCost::backward_weight_ns);
  figures.step = figures_by_stage(costs, &StageCost::step_ns);
  figures.kept = figures_by_stage(costs, &StageCost::kept);
  figures.recomputed = figures_by_stage(costs, &StageCost::recomputed);
  figures.recomputed_at_once = figures_by_stage(costs, &StageCost::recomputed_at_once);
  figures.weights = figures_by_stage(costs, &StageCost::weights);
  figures.gradients = figures_by_stage(costs, &StageCost::gradients);
  figures.optimizer_state = figures_by_stage(costs, &StageCost::optimizer_state);
  figures.transient = figures_by_stage(costs, &StageCost::transient);
  figures.activation = {.values = {}, .is_list = true, .place = "model"};
  for (const EdgeCost& edge : costs.edges) figures.activation.values.push_back(edge.activation);
  // Edges of a chain are by the stage that they leave, and a gradient is as large as its activation.
  figures.activation.values.push_back(0);  // out of the last stage
  return figures;
}

}  // namespace penstock
