// Figures that differ from microbatch to microbatch become those of one microbatch, key by key:
//
//   forward: [1 ms, [1 ms, 3 ms]]   at microbatch 1   forward: [1 ms, 3 ms]
//
// so that whatever reads figures reads those of one microbatch, and never asks which. A table of costs that
// was priced becomes figures as if they had been written.

#include "scenarios/model/model.hpp"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
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

StageFigures StageFigures::at_microbatch(std::size_t microbatch) const {
  StageFigures one = *this;
  for (PerStage<Ns>* times : {&one.forward, &one.backward, &one.backward_input, &one.backward_weight,
                              &one.recompute, &one.overlapped_pair}) {
    *times = times->at_microbatch(microbatch);
  }
  for (PerStage<Bytes>* bytes :
       {&one.activation, &one.gradient, &one.kept, &one.released_by_input, &one.input, &one.transient}) {
    *bytes = bytes->at_microbatch(microbatch);
  }
  return one;
}

std::vector<std::pair<std::size_t, std::string>> StageFigures::microbatch_lists() const {
  std::vector<std::pair<std::size_t, std::string>> lists;
  const auto add = [&lists](const auto& figures) {
    for (const auto& of_stage : figures.by_microbatch) {
      if (!of_stage.empty()) lists.emplace_back(of_stage.size(), figures.place);
    }
  };
  for (const PerStage<Ns>* times :
       {&forward, &backward, &backward_input, &backward_weight, &recompute, &overlapped_pair}) {
    add(*times);
  }
  for (const PerStage<Bytes>* bytes : {&activation, &gradient, &kept, &released_by_input, &input, &transient})
    add(*bytes);
  return lists;
}

StageFigures figures_of_stages(const CostTable& costs) {
  StageFigures figures;
  figures.forward = figures_by_stage(costs, &StageCost::forward_ns);
  figures.backward_input = figures_by_stage(costs, &StageCost::backward_input_ns);
  figures.backward_weight = figures_by_stage(costs, &StageCost::backward_weight_ns);
  figures.step = figures_by_stage(costs, &StageCost::step_ns);
  figures.kept = figures_by_stage(costs, &StageCost::kept);
  figures.weights = figures_by_stage(costs, &StageCost::weights);
  figures.gradients = figures_by_stage(costs, &StageCost::gradients);
  figures.optimizer_state = figures_by_stage(costs, &StageCost::optimizer_state);
  figures.transient = figures_by_stage(costs, &StageCost::transient);
  figures.activation = {.values = {}, .is_list = true, .place = "model"};
  for (const EdgeCost& edge : costs.edges) figures.activation.values.push_back(edge.activation);
  figures.activation.values.push_back(0);  // out of the last stage
  return figures;
}

}  // namespace penstock
