// Layers are shared out evenly; the first stage has the embedding and the last the head, whose time it takes
// alone, since a look-up costs nothing beside a product of the vocabulary's size. A third of a microbatch's
// time is its forward pass: each product of it has two in the backward pass.

#include "scenarios/prepare/fitted_prices.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/model/fitted_model.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/pipeline_copy.hpp"
#include "scenarios/pricing/iteration_costs.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {
namespace {

constexpr std::int64_t kForwardPart = 3;
constexpr std::int64_t kBytesOfActivation = 2;

/// By model stage.
std::vector<ModelPartSize> stage_parts(const std::vector<std::int64_t>& layers) {
  std::vector<ModelPartSize> parts;
  parts.reserve(layers.size());
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    parts.push_back(
        {.layers = layers[stage], .has_embedding = stage == 0, .has_head = stage + 1 == layers.size()});
  }
  return parts;
}

/// A rank's step, in the first of its stages.
std::vector<Ns> steps_of(const FittedModel& model, const std::vector<std::int32_t>& ranks,
                         const std::vector<ModelPartSize>& parts) {
  std::vector<ModelPartSize> of_rank(index(std::ranges::max(ranks) + 1));
  for (std::size_t stage = 0; stage < parts.size(); ++stage) {
    ModelPartSize& rank = of_rank[index(ranks[stage])];
    rank.layers += parts[stage].layers;
    rank.has_embedding |= parts[stage].has_embedding;
    rank.has_head |= parts[stage].has_head;
  }
  std::vector<Ns> steps;
  for (std::size_t stage = 0; stage < parts.size(); ++stage) {
    const bool is_first =
        std::ranges::find(ranks, ranks[stage]) - ranks.begin() == static_cast<std::ptrdiff_t>(stage);
    steps.push_back(is_first ? step_ns(*model.costs, model.kind, of_rank[index(ranks[stage])], model.copies)
                             : 0);
  }
  return steps;
}

StageFigures figures_of(const FittedModel& model, const LayerCosts& costs,
                        const std::vector<std::int32_t>& ranks, const std::vector<ModelPartSize>& parts) {
  const std::string place = "model.fitted";
  StageFigures figures;
  figures.forward = {.values = {}, .is_list = true, .place = place};
  figures.backward = figures.forward;
  for (const ModelPartSize& part : parts) {
    const Ns both_ns = microbatch_ns(costs, part);
    figures.forward.values.push_back(both_ns / kForwardPart);
    figures.backward.values.push_back(both_ns - both_ns / kForwardPart);
  }
  figures.step = {.values = steps_of(model, ranks, parts), .is_list = true, .place = place};
  figures.activation = {
      .values = {kBytesOfActivation * model.kind.micro_batch_size * model.kind.sequence * model.kind.hidden},
      .is_list = false,
      .place = place};
  return figures;
}

/// Times hold for the microbatch in force: nothing is scaled.
std::string fit_note(const FittedModel& model) {
  return fmt::format(
      "costs fitted on {}: {} layers of {}, data {}; a third of a microbatch is forward, the last stage has "
      "the head; of memory they say nothing",
      model.costs->source, model.layers, to_text(model.kind), model.copies);
}

}  // namespace

tl::expected<FittedPrices, std::string> price_by_fit(const Scenario& scenario, const FittedModel& model) {
  if (scenario.shape.data_parallel > 1 || scenario.shape.sharding > 0 || !scenario.shape.buckets.empty()) {
    return tl::unexpected(
        std::string("schedule: copies of a model with fitted costs are parallel.data; leave data_parallel, "
                    "sharding and buckets out"));
  }
  auto copy = pipeline_copy(scenario, model.copies, {}, model.layers);
  if (!copy) return tl::unexpected(copy.error());
  FittedModel sized = model;
  sized.kind.micro_batch_size = copy->resolved.micro_batch_size;
  const auto costs = layer_costs(*model.costs, sized.kind);
  if (!costs) return tl::unexpected("model.fitted: " + costs.error());
  Scenario priced = scenario;
  priced.model = figures_of(sized, *costs, copy->rank_of_stage, stage_parts(copy->layers));
  priced.batch = copy->batch;
  priced.batch.own_micro_batch_size = copy->resolved.micro_batch_size;
  priced.notes.push_back(fit_note(sized));
  return FittedPrices{.scenario = std::move(priced), .placed = std::move(copy->placed)};
}

}  // namespace penstock
