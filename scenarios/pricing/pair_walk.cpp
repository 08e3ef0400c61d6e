// Computes the time of an overlapped pair with two queues, one for computation and one for exchanges. The
// forward pass goes through the layers in order, and the backward pass in reverse order. Layer by layer,
// both queues are filled in the order of DeepSeek-V3 (arXiv:2412.19437, figure 4) and of Megatron-LM's
// combined_1f1b with delay_wgrad_compute:
//
//   computation   F attention | B experts, W experts | F experts  | B attention, W attention
//   exchanges     B combine   | F dispatch           | B dispatch | F combine
//
// A part starts when its queue is free and the part before it in its own pass has ended. No exchange waits
// for weight gradients (W). Some queue is always busy, so a pair never takes longer than its parts one after
// the other. Tested by pair_walk_test.cpp.

#include "scenarios/pricing/layer_terms.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <span>

namespace penstock {

namespace {

double of(const PartSeconds& seconds, LayerPart part) { return seconds.at(static_cast<std::size_t>(part)); }

/// The times at which the queue of computation and the queue of exchanges become free.
class Queues {
 public:
  /// Appends a part of a layer that may start at `ready` to its queue, and returns the time of its end. A
  /// part that takes no time does not wait for its queue.
  double run(LayerPart part, const PartSeconds& seconds, double ready) {
    const double duration = of(seconds, part);
    if (duration <= 0) return ready;
    const bool is_exchange = part == LayerPart::dispatch || part == LayerPart::combine;
    double& free = is_exchange ? exchange_ : computation_;
    return free = std::max(free, ready) + duration;
  }
  double end() const { return std::max(computation_, exchange_); }

 private:
  double computation_ = 0;
  double exchange_ = 0;
};

}  // namespace

bool LayerPasses::exchanges() const {
  return std::ranges::any_of(std::array{forward, backward}, [](const PartSeconds& pass) {
    return of(pass, LayerPart::dispatch) > 0 || of(pass, LayerPart::combine) > 0;
  });
}

LayerPasses passes_of(std::span<const Term> terms) {
  LayerPasses passes;
  for (const Term& term : terms) {
    passes.forward.at(static_cast<std::size_t>(term.part)) += term.forward;
    passes.backward.at(static_cast<std::size_t>(term.part)) += term.backward_input;
    passes.weight.at(static_cast<std::size_t>(term.part)) += term.backward_weight;
  }
  return passes;
}

double pair_seconds(std::span<const LayerPasses> layers) {
  Queues queues;
  double forward_ready = 0;
  double backward_ready = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const PartSeconds& forward = layers[i].forward;
    const LayerPasses& opposite = layers[layers.size() - 1 - i];
    const PartSeconds& backward = opposite.backward;
    const double forward_attention = queues.run(LayerPart::attention, forward, forward_ready);
    const double backward_combine = queues.run(LayerPart::combine, backward, backward_ready);
    const double forward_dispatch = queues.run(LayerPart::dispatch, forward, forward_attention);
    const double backward_experts = queues.run(LayerPart::experts, backward, backward_combine);
    const double backward_dispatch = queues.run(LayerPart::dispatch, backward, backward_experts);
    queues.run(LayerPart::experts, opposite.weight, backward_experts);
    const double forward_experts = queues.run(LayerPart::experts, forward, forward_dispatch);
    forward_ready = queues.run(LayerPart::combine, forward, forward_experts);
    backward_ready = queues.run(LayerPart::attention, backward, backward_dispatch);
    queues.run(LayerPart::attention, opposite.weight, backward_ready);
  }
  return queues.end();
}

double hidden_seconds(std::span<const LayerPasses> layers) {
  double sum = 0;
  for (const LayerPasses& layer : layers) {
    sum += std::accumulate(layer.forward.begin(), layer.forward.end(), 0.0);
    sum += std::accumulate(layer.backward.begin(), layer.backward.end(), 0.0);
    sum += std::accumulate(layer.weight.begin(), layer.weight.end(), 0.0);
  }
  return std::max(0.0, sum - pair_seconds(layers));
}

}  // namespace penstock
