// Replaces the bytes of the cost table by the bytes that the modules report. The bytes of an edge come from
// the two stages that it connects: the sender of the activation and the sender of the gradient report the
// sizes. All microbatches have equal sizes.

#include "backend/executor/stage_bytes.hpp"

#include <cstddef>
#include <vector>

#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

CostTable with_stage_bytes(CostTable costs, const Program& program, const std::vector<StageBytes>& bytes) {
  for (std::size_t stage = 0; stage < bytes.size(); ++stage) {
    StageCost& cost = costs.stages[stage];
    const StageBytes& found = bytes[stage];
    cost.input = found.input;
    cost.kept = found.kept;
    cost.released_by_input = found.released_by_input;
    cost.weights = found.weights;
    cost.gradients = found.gradients;
    cost.optimizer_state = found.optimizer_state;
  }
  // Costs of single microbatches would override the costs of the stages, so they are removed.
  costs.microbatches.clear();
  costs.edges.clear();
  for (const StageEdge& edge : stage_edges(program)) {
    costs.edges.push_back({.activation = bytes[static_cast<std::size_t>(edge.from)].activation,
                           .gradient = bytes[static_cast<std::size_t>(edge.to)].gradient});
  }
  return costs;
}

}  // namespace penstock
