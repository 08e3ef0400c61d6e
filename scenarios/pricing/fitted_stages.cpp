// Computes the times of stages. The first stage has the embedding and the last one the head. The time of both
// belongs to the last stage, because a look-up takes little time compared with the head's product. A rank
// makes one step for all its stages:
//
//   stages 0 1 2 3 on ranks 0 1 0 1     steps of rank 0, of rank 1, 0, 0

#include "scenarios/pricing/fitted_stages.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/pricing/iteration_costs.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {
namespace {

/// Returns the part of the model that each stage holds.
std::vector<ModelPartSize> stage_parts(std::span<const std::int64_t> layers) {
  std::vector<ModelPartSize> parts;
  parts.reserve(layers.size());
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    parts.push_back(
        {.layers = layers[stage], .has_embedding = stage == 0, .has_head = stage + 1 == layers.size()});
  }
  return parts;
}

/// Returns the part of the model that each rank holds in all its stages.
std::vector<ModelPartSize> rank_parts(const std::vector<ModelPartSize>& stages,
                                      std::span<const std::int32_t> rank_of_stage) {
  std::vector<ModelPartSize> parts(index(std::ranges::max(rank_of_stage) + 1));
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    ModelPartSize& rank = parts[index(rank_of_stage[stage])];
    rank.layers += stages[stage].layers;
    rank.has_embedding |= stages[stage].has_embedding;
    rank.has_head |= stages[stage].has_head;
  }
  return parts;
}

}  // namespace

tl::expected<std::vector<FittedStage>, std::string> fitted_stages(const IterationCosts& costs,
                                                                  const FittedPipeline& pipeline) {
  const std::vector<ModelPartSize> parts = stage_parts(pipeline.layers);
  const std::vector<ModelPartSize> of_ranks = rank_parts(parts, pipeline.rank_of_stage);
  const auto of_layer = layer_costs(costs, pipeline.kind);
  if (!of_layer) return tl::unexpected(of_layer.error());
  std::vector<FittedStage> stages;
  // The stages of a rank are updated together, so one STEP has the whole time. A division would lose time by
  // rounding.
  std::vector<char> has_stepped(of_ranks.size(), 0);
  for (std::size_t stage = 0; stage < parts.size(); ++stage) {
    const std::size_t rank = index(pipeline.rank_of_stage[stage]);
    FittedStage& fitted = stages.emplace_back();
    fitted.microbatch_ns = microbatch_ns(*of_layer, parts[stage]);
    if (has_stepped[rank] == 0)
      fitted.step_ns = step_ns(costs, pipeline.kind, of_ranks[rank], pipeline.copies);
    has_stepped[rank] = 1;
  }
  return stages;
}

}  // namespace penstock
