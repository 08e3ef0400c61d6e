// Every form of a model first becomes one UnscaledStage a stage, for the microbatch that its figures hold
// for; then one rule scales them:
//
//   duration = overhead + figure * wanted / own        bytes = figure * wanted / own
//
// B is scaled as a whole and I and W share it, so that B = I + W stays exact. Where microbatches differ, the
// same is done for the figures of each.

#include "scenarios/prepare/stage_costs.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/model/device_model.hpp"
#include "scenarios/model/fitted_model.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/prepare/scaling.hpp"
#include "scenarios/prepare/stage_cut.hpp"
#include "scenarios/read/quantities.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {
namespace {

/// One stage's figures before scaling.
struct UnscaledStage {
  StageCost cost;
  Ns overhead_ns = 0;
  Bytes activation = 0;
  Bytes gradient = 0;
};

using UnscaledStages = tl::expected<std::vector<UnscaledStage>, std::string>;

// --- stage figures --------------------------------------------------------------------------------------

std::string placed(const std::string& place, std::string_view key) {
  return place.empty() ? fmt::format("model.stages.{}", key) : place;
}

template <typename Value>
std::string length_error(const PerStage<Value>& figures, std::string_view key, std::int32_t stages) {
  if (!figures.is_list || static_cast<std::int32_t>(figures.values.size()) == stages) return "";
  return fmt::format(
      "{}: expected one value or a list of {}, one for each stage of the model, got a list of {}",
      placed(figures.place, key), stages, figures.values.size());
}

/// The first list of the wrong length, as a message; empty when all fit.
std::string first_length_error(const StageFigures& figures, std::int32_t stages) {
  for (const std::string& error :
       {length_error(figures.forward, "forward", stages), length_error(figures.backward, "backward", stages),
        length_error(figures.backward_input, "backward_input", stages),
        length_error(figures.backward_weight, "backward_weight", stages),
        length_error(figures.recompute, "recompute", stages),
        length_error(figures.overlapped_pair, "overlapped_pair", stages),
        length_error(figures.step, "step", stages), length_error(figures.overhead, "overhead", stages),
        length_error(figures.activation, "activation", stages),
        length_error(figures.gradient, "gradient", stages), length_error(figures.kept, "kept", stages),
        length_error(figures.released_by_input, "released_by_input", stages),
        length_error(figures.input, "input", stages), length_error(figures.weights, "weights", stages),
        length_error(figures.gradients, "gradients", stages),
        length_error(figures.optimizer_state, "optimizer_state", stages),
        length_error(figures.transient, "transient", stages)}) {
    if (!error.empty()) return error;
  }
  return "";
}

/// What the three backward figures of a stage say together.
struct BackwardTimes {
  Ns whole = 0;
  Ns input = 0;
  Ns weight = 0;
};

tl::expected<BackwardTimes, std::string> backward_of(const StageFigures& figures, std::int32_t stage) {
  BackwardTimes times{.whole = figures.backward.of(stage, 0),
                      .input = figures.backward_input.of(stage, 0),
                      .weight = figures.backward_weight.of(stage, 0)};
  const bool has_input = figures.backward_input.given();
  const bool has_weight = figures.backward_weight.given();
  if (!figures.backward.given()) {
    if (__builtin_add_overflow(times.input, times.weight, &times.whole)) {
      return tl::unexpected(std::string("model.stages: backward_input + backward_weight is beyond 2^63 ns"));
    }
    return times;
  }
  if (!has_input && !has_weight) times.input = times.whole / 2;
  if (has_weight && !has_input) times.input = times.whole - times.weight;
  if (!has_weight) times.weight = times.whole - times.input;
  const Wide sum = static_cast<Wide>(times.input) + times.weight;
  if (sum == times.whole && times.input >= 0 && times.weight >= 0) return times;
  return tl::unexpected(fmt::format(
      "{}: expected backward = backward_input + backward_weight, got {} for stage {} with {}{}{}; change or "
      "leave out "
      "one of them",
      placed(figures.backward.place, "backward"), duration_text(times.whole), stage,
      has_input ? "backward_input " + duration_text(times.input) : "", has_input && has_weight ? " and " : "",
      has_weight ? "backward_weight " + duration_text(times.weight) : ""));
}

tl::expected<UnscaledStage, std::string> unscaled(const StageFigures& figures,
                                                  const BytesPerWeightByte& beside, std::int32_t stage) {
  const auto backward = backward_of(figures, stage);
  if (!backward) return tl::unexpected(backward.error());
  UnscaledStage result;
  StageCost& cost = result.cost;
  cost.forward_ns = figures.forward.of(stage, 0);
  cost.backward_ns = backward->whole;
  cost.backward_input_ns = backward->input;
  cost.backward_weight_ns = backward->weight;
  cost.recompute_ns = figures.recompute.of(stage, cost.forward_ns);
  cost.step_ns = figures.step.of(stage, 0);
  cost.overlapped_pair_ns = figures.overlapped_pair.of(stage, -1);
  cost.kept = figures.kept.of(stage, 0);
  cost.released_by_input = figures.released_by_input.of(stage, 0);
  cost.input = figures.input.of(stage, 0);
  cost.weights = figures.weights.of(stage, 0);
  const Wide gradients = static_cast<Wide>(cost.weights) * beside.gradients;
  const Wide state = static_cast<Wide>(cost.weights) * beside.optimizer_state;
  if (std::max(gradients, state) > std::numeric_limits<Bytes>::max()) {
    return tl::unexpected(fmt::format("{}: the gradients or the optimizer state would be beyond 2^63 bytes",
                                      placed(figures.weights.place, "weights")));
  }
  cost.gradients = figures.gradients.of(stage, static_cast<Bytes>(gradients));
  cost.transient = figures.transient.of(stage, 0);
  cost.optimizer_state = figures.optimizer_state.of(stage, static_cast<Bytes>(state));
  if (cost.released_by_input > cost.kept) {
    return tl::unexpected(fmt::format("{}: expected at most the kept {} B of stage {}, got {} B",
                                      placed(figures.released_by_input.place, "released_by_input"), cost.kept,
                                      stage, cost.released_by_input));
  }
  result.overhead_ns = figures.overhead.of(stage, 0);
  result.activation = figures.activation.of(stage, 0);
  result.gradient = figures.gradient.of(stage, result.activation);
  return result;
}

UnscaledStages unscaled_stages(const StageFigures& figures, const BytesPerWeightByte& beside,
                               std::int32_t stages) {
  if (std::string error = first_length_error(figures, stages); !error.empty()) return tl::unexpected(error);
  std::vector<UnscaledStage> result;
  for (std::int32_t stage = 0; stage < stages; ++stage) {
    auto one = unscaled(figures, beside, stage);
    if (!one) return tl::unexpected(one.error());
    result.push_back(*one);
  }
  return result;
}

// --- layers ---------------------------------------------------------------------------------------------

/// The figures of the stage that holds layers [begin, end): sums over them, and what the cut behind it
/// carries.
tl::expected<UnscaledStage, std::string> stage_of_layers(const LayerGraph& graph,
                                                         const BytesPerWeightByte& beside, std::int32_t begin,
                                                         std::int32_t end) {
  Wide forward = 0;
  Wide backward = 0;
  Wide kept = 0;
  Wide weights = 0;
  Bytes transient = 0;
  for (auto layer = static_cast<std::size_t>(begin); layer < static_cast<std::size_t>(end); ++layer) {
    forward += graph.layers[layer].forward_ns;
    backward += graph.layers[layer].backward_ns;
    kept += graph.layers[layer].kept_bytes();
    weights += graph.layers[layer].weights;
    transient = std::max(transient, graph.layers[layer].transient);  // one layer runs at a time
  }
  const Wide gradients = weights * beside.gradients;
  const Wide state = weights * beside.optimizer_state;
  if (std::max({forward, backward, kept, gradients, state}) > std::numeric_limits<std::int64_t>::max()) {
    return tl::unexpected(
        fmt::format("the layers {} to {} of the model add up to more than 2^63", begin, end - 1));
  }
  const auto crossing = cut_bytes(graph, end);
  if (!crossing) return tl::unexpected(crossing.error());
  UnscaledStage stage{
      .cost = {}, .overhead_ns = graph.overhead_ns, .activation = *crossing, .gradient = *crossing};
  stage.cost.forward_ns = static_cast<Ns>(forward);
  stage.cost.backward_ns = static_cast<Ns>(backward);
  stage.cost.backward_input_ns = stage.cost.backward_ns / 2;
  stage.cost.backward_weight_ns = stage.cost.backward_ns - stage.cost.backward_input_ns;
  stage.cost.recompute_ns = stage.cost.forward_ns;
  stage.cost.kept = static_cast<Bytes>(kept);
  stage.cost.weights = static_cast<Bytes>(weights);
  stage.cost.gradients = static_cast<Bytes>(gradients);
  stage.cost.optimizer_state = static_cast<Bytes>(state);
  stage.cost.transient = transient;
  return stage;
}

UnscaledStages unscaled_stages(const LayerGraph& graph, const BytesPerWeightByte& beside,
                               const std::vector<std::int32_t>& ends) {
  std::vector<UnscaledStage> result;
  std::int32_t begin = 0;
  for (const std::int32_t end : ends) {
    auto stage = stage_of_layers(graph, beside, begin, end);
    if (!stage) return tl::unexpected(stage.error());
    result.push_back(*stage);
    begin = end;
  }
  return result;
}

/// Values that the optimizer keeps for each weight.
std::int64_t copies_of_weights(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::sgd:
      return 0;
    case Optimizer::momentum:
    case Optimizer::rmsprop:
      return 1;
    case Optimizer::adam:
      return 2;
  }
  return 0;
}

// --- buckets --------------------------------------------------------------------------------------------

/// Part i of n; the parts of a figure add up to it.
std::int64_t part(std::int64_t figure, std::int32_t i, std::int32_t n) {
  const Wide whole = figure;
  return static_cast<std::int64_t>(whole * (i + 1) / n - whole * i / n);
}

std::vector<UnscaledStage> in_equal_buckets(std::vector<UnscaledStage> stages,
                                            const std::vector<std::int32_t>& buckets) {
  if (buckets.empty()) return stages;
  std::vector<UnscaledStage> result;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    for (std::int32_t i = 0; i < buckets[stage]; ++i) {
      result.push_back(stages[stage]);
      result.back().cost = bucket_of(stages[stage].cost, i, buckets[stage]);
    }
  }
  return result;
}

/// A stage has its overhead once, in its first bucket.
void clear_overhead_of_later_buckets(std::vector<UnscaledStage>& stages,
                                     const std::vector<std::int32_t>& buckets) {
  std::size_t first = 0;
  for (const std::int32_t count : buckets) {
    for (std::size_t later = first + 1; later < first + static_cast<std::size_t>(count); ++later)
      stages[later].overhead_ns = 0;
    first += static_cast<std::size_t>(count);
  }
}

// --- scaling --------------------------------------------------------------------------------------------

StageCost scaled(const UnscaledStage& stage, Scaler& scale) {
  StageCost cost = stage.cost;
  const Ns overhead = stage.overhead_ns;
  const Ns backward = scale(cost.backward_ns);
  const Ns input = std::min(scale(cost.backward_input_ns), backward);
  cost.forward_ns = scale.with_overhead(scale(cost.forward_ns), overhead);
  cost.backward_ns = scale.with_overhead(backward, overhead);
  cost.backward_input_ns = scale.with_overhead(input, overhead);
  cost.backward_weight_ns = scale.with_overhead(backward - input, overhead);
  cost.recompute_ns = scale.with_overhead(scale(cost.recompute_ns), overhead);
  if (cost.overlapped_pair_ns >= 0) {  // holds two actions, each of which has the overhead
    const Ns first = scale.with_overhead(scale(cost.overlapped_pair_ns), overhead);
    cost.overlapped_pair_ns = scale.with_overhead(first, overhead);
  }
  cost.kept = scale(cost.kept);
  cost.released_by_input = scale(cost.released_by_input);
  cost.input = scale(cost.input);
  cost.transient = scale(cost.transient);
  return cost;
}

tl::expected<CostTable, std::string> scaled_table(const std::vector<UnscaledStage>& stages,
                                                  const Program& program, Scaling scaling) {
  Scaler scale(scaling);
  CostTable costs;
  for (const UnscaledStage& stage : stages) costs.stages.push_back(scaled(stage, scale));
  for (const StageEdge& edge : stage_edges(program)) {
    const UnscaledStage& from = stages[static_cast<std::size_t>(edge.from)];
    costs.edges.push_back({.activation = scale(from.activation), .gradient = scale(from.gradient)});
  }
  if (scale.overflowed()) return tl::unexpected(scale.overflow());
  return costs;
}

// --- the forms of a model -------------------------------------------------------------------------------

/// The figures of the program's stages; a stage of a model without layers is cut into equal buckets.
struct StagesOf {
  const StageCut& cut;
  const BytesPerWeightByte& beside;
  const StageCost& unit;

  UnscaledStages operator()(const UnitCosts&) const {
    return in_equal_buckets({static_cast<std::size_t>(cut.stages), UnscaledStage{.cost = unit}}, cut.buckets);
  }
  UnscaledStages operator()(const StageFigures& figures) const {
    return unscaled_stages(figures, beside, cut.stages).map([&](std::vector<UnscaledStage>&& stages) {
      return in_equal_buckets(std::move(stages), cut.buckets);
    });
  }
  UnscaledStages operator()(const LayerGraph& graph) const {
    return unscaled_stages(graph, beside, cut.ends);
  }
  UnscaledStages operator()(const DeviceModel& /*model*/) const {
    throw std::logic_error("a model on named devices becomes stages before they are priced");
  }
  UnscaledStages operator()(const FittedModel& /*model*/) const {
    throw std::logic_error("a model with fitted costs becomes stages before they are priced");
  }
};

/// What one slice of a microbatch is scaled by; of unit costs a slice takes what a microbatch does: the units
/// are those of whatever the schedule moves.
Scaling of_a_slice(const Model& model, const Program& program, Scaling samples) {
  if (!std::holds_alternative<UnitCosts>(model)) samples.own *= program.slices;
  return samples;
}

/// Of a model whose microbatches are alike, or their mean.
tl::expected<CostTable, std::string> table_of_one_microbatch(const Model& model, const StageCut& cut,
                                                             const Pricing& pricing, const Program& program) {
  const StageCost unit = unit_costs(program).stages.front();
  auto stages = std::visit(StagesOf{.cut = cut, .beside = pricing.beside, .unit = unit}, model);
  if (!stages) return tl::unexpected(stages.error());
  if (stages->size() != program.placement.stages.size()) {
    throw std::logic_error(fmt::format("the model is cut into {} stages for a program of {}", stages->size(),
                                       program.stage_count()));
  }
  clear_overhead_of_later_buckets(*stages, cut.buckets);
  return scaled_table(*stages, program, of_a_slice(model, program, pricing.samples));
}

/// After how many microbatches all lists have repeated together: a divisor of the program's, so that every
/// iteration has the same.
std::size_t common_period(const std::vector<std::pair<std::size_t, std::string>>& lists,
                          std::int32_t microbatches) {
  const auto most = static_cast<std::size_t>(microbatches);
  std::size_t period = 1;
  for (const auto& [length, place] : lists) {
    period = std::lcm(period, std::min(length, most));
    if (period >= most) return most;
  }
  return most % period == 0 ? period : most;
}

}  // namespace

BytesPerWeightByte bytes_per_weight_byte(Optimizer optimizer, Precision precision) {
  // Values of 2 bytes have copies and state of 4: 2 bytes a weight byte each.
  const std::int64_t copies = copies_of_weights(optimizer);
  switch (precision) {
    case Precision::full:
      return {.gradients = 1, .optimizer_state = copies};
    case Precision::mixed:
      return {.gradients = 1, .optimizer_state = 2 * (copies + 1)};
    case Precision::mixed_full_gradients:
      return {.gradients = 2, .optimizer_state = 2 * (copies + 1)};
  }
  return {};
}

StageCost bucket_of(const StageCost& stage, std::int32_t i, std::int32_t n) {
  StageCost bucket = stage;  // `transient`, too: one bucket runs at a time
  bucket.forward_ns = part(stage.forward_ns, i, n);
  bucket.backward_ns = part(stage.backward_ns, i, n);
  bucket.backward_input_ns = part(stage.backward_input_ns, i, n);
  bucket.backward_weight_ns = bucket.backward_ns - bucket.backward_input_ns;
  bucket.recompute_ns = part(stage.recompute_ns, i, n);
  bucket.step_ns = part(stage.step_ns, i, n);
  bucket.kept = part(stage.kept, i, n);
  bucket.released_by_input = std::min(part(stage.released_by_input, i, n), bucket.kept);
  bucket.input = i == 0 ? stage.input : 0;
  bucket.weights = part(stage.weights, i, n);
  bucket.gradients = part(stage.gradients, i, n);
  bucket.optimizer_state = part(stage.optimizer_state, i, n);
  return bucket;
}

tl::expected<CostTable, std::string> cost_table(const Model& model, const StageCut& cut,
                                                const Pricing& pricing, const Program& program) {
  auto costs = table_of_one_microbatch(model, cut, pricing, program);
  const auto* figures = std::get_if<StageFigures>(&model);
  if (!costs || figures == nullptr) return costs;
  const auto lists = figures->microbatch_lists();
  const std::size_t count = lists.empty() ? 0 : common_period(lists, program.microbatches);
  costs->slices = lists.empty() ? 1 : program.slices;
  for (std::size_t microbatch = 0; microbatch < count; ++microbatch) {
    auto one = table_of_one_microbatch(figures->at_microbatch(microbatch), cut, pricing, program);
    if (!one)
      return tl::unexpected(fmt::format("{} (microbatch {} of those listed)", one.error(), microbatch));
    costs->microbatches.push_back({.stages = std::move(one->stages), .edges = std::move(one->edges)});
  }
  return costs;
}

}  // namespace penstock
