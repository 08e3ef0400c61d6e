// Computes the figures of a model for each stage. If a scenario states figures for each stage but leaves
// out some times, they are computed from the stated ones:
//
//   B alone -> I = B / 2, W = B - I        B and I -> W = B - I        I and W -> B = I + W        R = F
//
// If it states layers, the figures of a stage are sums over its layers. Only `transient` is a maximum,
// because one layer runs at a time. Gradients and optimizer state are multiples of the weights unless they
// are stated.

#include "scenarios/prepare/model_stages.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/read/quantities.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {

namespace {

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

/// Returns an error message for the first list of a wrong length, or an empty text if all lengths are right.
std::string first_length_error(const StageFigures& figures, std::int32_t stages) {
  for (const std::string& error : {length_error(figures.forward, "forward", stages),
                                   length_error(figures.backward, "backward", stages),
                                   length_error(figures.backward_input, "backward_input", stages),
                                   length_error(figures.backward_weight, "backward_weight", stages),
                                   length_error(figures.recompute, "recompute", stages),
                                   length_error(figures.overlapped_pair, "overlapped_pair", stages),
                                   length_error(figures.pair_hidden, "pair_hidden", stages),
                                   length_error(figures.step, "step", stages),
                                   length_error(figures.overhead, "overhead", stages),
                                   length_error(figures.activation, "activation", stages),
                                   length_error(figures.gradient, "gradient", stages),
                                   length_error(figures.expected_activation, "expected_activation", stages),
                                   length_error(figures.expected_gradient, "expected_gradient", stages),
                                   length_error(figures.kept, "kept", stages),
                                   length_error(figures.released_by_input, "released_by_input", stages),
                                   length_error(figures.recomputed, "recomputed", stages),
                                   length_error(figures.recomputed_at_once, "recomputed_at_once", stages),
                                   length_error(figures.input, "input", stages),
                                   length_error(figures.weights, "weights", stages),
                                   length_error(figures.gradients, "gradients", stages),
                                   length_error(figures.optimizer_state, "optimizer_state", stages),
                                   length_error(figures.transient, "transient", stages)}) {
    if (!error.empty()) return error;
  }
  return "";
}

/// The backward times of a stage after missing ones are filled in.
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
  // A missing time follows from the other two. If all three are stated, they must agree.
  if (!has_input && !has_weight) times.input = times.whole / 2;
  if (has_weight && !has_input) times.input = times.whole - times.weight;
  if (!has_weight) times.weight = times.whole - times.input;
  const Wide sum = static_cast<Wide>(times.input) + times.weight;
  if (sum == times.whole && times.input >= 0 && times.weight >= 0) return times;
  return tl::unexpected(fmt::format(
      "{}: expected backward = backward_input + backward_weight, got {} for stage {} with {}{}{}; change or "
      "leave out one of them",
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
  // The value -1 means that the time is not stated. An engine then adds the times of the two actions of a
  // pair.
  cost.overlapped_pair_ns = figures.overlapped_pair.of(stage, -1);
  cost.pair_hidden_ns = figures.pair_hidden.of(stage, 0);
  cost.kept = figures.kept.of(stage, 0);
  cost.released_by_input = figures.released_by_input.of(stage, 0);
  cost.recomputed = figures.recomputed.of(stage, 0);
  cost.recomputed_at_once = figures.recomputed_at_once.of(stage, 0);
  cost.input = figures.input.of(stage, 0);
  cost.weights = figures.weights.of(stage, 0);
  const Wide gradients = static_cast<Wide>(cost.weights) * beside.gradients;
  const Wide state = static_cast<Wide>(cost.weights) * beside.optimizer_state;
  // This check also applies if a stated figure replaces the product. All stages therefore follow one rule.
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
  if (cost.recomputed_at_once > cost.transient) {
    return tl::unexpected(fmt::format("{}: expected at most the transient {} B of stage {}, got {} B",
                                      placed(figures.recomputed_at_once.place, "recomputed_at_once"),
                                      cost.transient, stage, cost.recomputed_at_once));
  }
  result.overhead_ns = figures.overhead.of(stage, 0);
  result.activation = figures.activation.of(stage, 0);
  result.gradient = figures.gradient.of(stage, result.activation);
  return result;
}

// --- layers ---------------------------------------------------------------------------------------------

/// Returns the figures of a stage with the layers [begin, end). They are the sums over the layers, and the
/// bytes that cross the cut after them.
tl::expected<UnscaledStage, std::string> stage_of_layers(const LayerGraph& graph,
                                                         const BytesPerWeightByte& beside, std::int32_t begin,
                                                         std::int32_t end) {
  Wide forward = 0;
  Wide backward = 0;
  Wide kept = 0;
  Wide weights = 0;
  Wide recomputed = 0;
  Bytes transient = 0;
  Bytes transient_of_split = 0;  // the transient bytes of I and W
  for (auto layer = static_cast<std::size_t>(begin); layer < static_cast<std::size_t>(end); ++layer) {
    forward += graph.layers[layer].forward_ns;
    backward += graph.layers[layer].backward_ns;
    kept += graph.layers[layer].kept_bytes();
    weights += graph.layers[layer].weights;
    recomputed += graph.layers[layer].recomputed;
    // Layers run one at a time, so their transient bytes do not add up.
    transient = std::max(transient, graph.layers[layer].transient);
    transient_of_split =
        std::max(transient_of_split, graph.layers[layer].transient - graph.layers[layer].recomputed);
  }
  const Wide gradients = weights * beside.gradients;
  const Wide state = weights * beside.optimizer_state;
  if (std::max({forward, backward, kept, recomputed, gradients, state}) >
      std::numeric_limits<std::int64_t>::max()) {
    return tl::unexpected(
        fmt::format("the layers {} to {} of the model add up to more than 2^63", begin, end - 1));
  }
  // No later layer reads an output of the last stage, so cut_bytes() returns 0 there.
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
  stage.cost.recomputed = static_cast<Bytes>(recomputed);
  stage.cost.recomputed_at_once = transient - transient_of_split;
  return stage;
}

}  // namespace

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

namespace {

/// Multiplies the times of a stage by the slowness of its device. Returns an error if a time exceeds 2^63
/// ns.
tl::expected<void, std::string> slow_down(StageCost& cost, double slowness) {
  constexpr double kMost = 9.2e18;  // a number just below 2^63
  if (static_cast<double>(std::max(cost.forward_ns, cost.backward_ns)) * slowness > kMost)
    return tl::unexpected(std::string("the times of a stage on the slowest device are beyond 2^63 ns"));
  const auto slower = [&](Ns time) {
    return static_cast<Ns>(std::llround(static_cast<double>(time) * slowness));
  };
  cost.forward_ns = slower(cost.forward_ns);
  cost.recompute_ns = cost.forward_ns;
  cost.backward_ns = slower(cost.backward_ns);
  cost.backward_input_ns = cost.backward_ns / 2;
  cost.backward_weight_ns = cost.backward_ns - cost.backward_input_ns;
  return {};
}

}  // namespace

UnscaledStages unscaled_stages(const LayerGraph& graph, const BytesPerWeightByte& beside,
                               const std::vector<std::int32_t>& ends, const std::vector<double>& slowness) {
  std::vector<UnscaledStage> result;
  std::int32_t begin = 0;
  for (const std::int32_t end : ends) {
    auto stage = stage_of_layers(graph, beside, begin, end);
    if (!stage) return tl::unexpected(stage.error());
    if (!slowness.empty()) {
      if (auto slower = slow_down(stage->cost, slowness[result.size()]); !slower)
        return tl::unexpected(slower.error());
    }
    result.push_back(*stage);
    begin = end;
  }
  return result;
}

// Computes figure * wanted / own with a product of 128 bits, because the product may exceed 64 bits even if
// the quotient fits.

std::int64_t Scaler::operator()(std::int64_t figure) {
  const Wide scaled = (static_cast<Wide>(figure) * scaling_.wanted + scaling_.own / 2) / scaling_.own;
  overflowed_ |= scaled > std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(scaled);
}

Ns Scaler::with_overhead(Ns scaled_ns, Ns overhead_ns) {
  Ns sum = 0;
  overflowed_ |= __builtin_add_overflow(scaled_ns, overhead_ns, &sum);
  return sum;
}

std::string Scaler::overflow() const {
  return fmt::format("the model's figures for {} samples become more than 2^63 when scaled to {}",
                     scaling_.own, scaling_.wanted);
}

// --- scaled layers ---------------------------------------------------------------------------------------
//
// Weights do not depend on the number of samples. All other figures of a layer are proportional to this
// number.

tl::expected<LayerGraph, std::string> scaled_layers(LayerGraph graph, Scaling scaling) {
  Scaler scale(scaling);
  for (Layer& layer : graph.layers) {
    layer.forward_ns = scale(layer.forward_ns);
    layer.backward_ns = scale(layer.backward_ns);
    layer.output = scale(layer.output);
    if (layer.kept) layer.kept = scale(*layer.kept);
    layer.transient = scale(layer.transient);
    layer.recomputed = std::min(scale(layer.recomputed), layer.transient);
  }
  if (!scale.overflowed()) return graph;
  return tl::unexpected(scale.overflow());
}

}  // namespace penstock
