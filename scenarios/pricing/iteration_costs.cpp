// Computes the costs of training iterations from fitted constants. A device has l layers of kind k and n
// parameters. With M microbatches and d copies of the pipeline:
//
//   iteration of one stage = M (l layer(k) + ends(k)) + constant + l c + n u + 2 (d - 1) / d n r
//
// The formula is linear in the fitted constants layer, ends, constant, c, u and r. There is one r for each
// hidden size. In a pipeline, each stage has the time of its own layers. The bubble is not part of any cost,
// because an engine simulates the iteration. sim/hold fits the constants.

#include "scenarios/pricing/iteration_costs.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {

std::string to_text(const FittedLayer& kind) {
  return fmt::format("hidden {}, heads {}, sequence {}, tensor {}, micro_batch_size {}", kind.hidden,
                     kind.heads, kind.sequence, kind.tensor, kind.micro_batch_size);
}

tl::expected<LayerCosts, std::string> layer_costs(const IterationCosts& costs, const FittedLayer& kind) {
  const auto known = costs.layers.find(kind);
  if (known != costs.layers.end()) return known->second;
  // The message names the next measured kind, in the order of hidden, heads, sequence, tensor and microbatch
  // size.
  const auto after = costs.layers.upper_bound(kind);
  const FittedLayer& near = after == costs.layers.end() ? costs.layers.rbegin()->first : after->first;
  return tl::unexpected(fmt::format(
      "no costs for layers of {}: nothing is guessed between the {} kinds that were measured, such as {}",
      to_text(kind), costs.layers.size(), to_text(near)));
}

double device_parameters(const FittedLayer& kind, std::int64_t vocabulary, const ModelPartSize& part) {
  const auto hidden = static_cast<double>(kind.hidden);
  const double embedding = static_cast<double>(vocabulary) * hidden;
  // A layer has 4 h^2 + 4 h parameters in attention, 8 h^2 + 5 h in the feed-forward part, and 4 h in two
  // norms.
  double all = static_cast<double>(part.layers) * hidden * (12 * hidden + 13);
  if (part.has_embedding) all += embedding + static_cast<double>(kind.sequence) * hidden;
  // The head uses the weights of the embedding. A device without the embedding stores a copy of these
  // weights.
  if (part.has_head && !part.has_embedding) all += embedding;
  return all / kind.tensor;
}

double ring_share(std::int32_t copies) { return 2.0 * (copies - 1) / copies; }

Ns microbatch_ns(const LayerCosts& costs, const ModelPartSize& stage) {
  return stage.layers * costs.layer_ns + (stage.has_head ? costs.ends_ns : 0);
}

Ns step_ns(const IterationCosts& costs, const FittedLayer& kind, const ModelPartSize& rank,
           std::int32_t copies) {
  constexpr double kMillion = 1e6;
  const double millions = device_parameters(kind, costs.vocabulary, rank) / kMillion;
  const StepCosts& step = costs.step;
  const double by_parameters =
      millions * (static_cast<double>(step.million_parameters_ns) +
                  ring_share(copies) * static_cast<double>(step.million_reduced_ns.at(kind.hidden)));
  return step.constant_ns + rank.layers * step.layer_ns + static_cast<Ns>(std::llround(by_parameters));
}

// Computes the times of stages. The first stage has the embedding, and the last stage has the head. The time
// of both is assigned to the last stage, because the look-up in the embedding takes little time compared with
// the head's product. A rank runs one optimizer step for all its stages:
//
//   stages 0 1 2 3 on ranks 0 1 0 1     steps of rank 0, of rank 1, 0, 0

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
  // The stages of a rank are updated together. The first stage's STEP gets the whole time, because a division
  // of the time among the stages would be rounded.
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
