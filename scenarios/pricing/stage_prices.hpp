#pragma once
// Computes the time and memory (the prices) of a workload on one device: of each kind of layer, of each model
// stage, and of the step of a rank.

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/pricing/collectives.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_memory.hpp"
#include "scenarios/pricing/layer_terms.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// The seconds of a microbatch's computation with which the exchanges of a step can overlap. They do not
/// include waits for exchanges between copies. They also do not include the computation during which
/// weights are gathered for the backward pass.
struct ComputeSeconds {
  double forward_s = 0;
  double backward_s = 0;
  ComputeSeconds& operator+=(const ComputeSeconds& other) {
    forward_s += other.forward_s;
    backward_s += other.backward_s;
    return *this;
  }
};

/// The seconds of the passes of one microbatch, as sums of terms.
struct PassTimes {
  double forward_s = 0;
  double backward_input_s = 0;
  double backward_weight_s = 0;
  /// The seconds, contained in the times above, in which the device waits for exchanges between copies of the
  /// weights.
  ShownCollectives shown{};

  ComputeSeconds compute() const {
    return {.forward_s = forward_s - shown.gathered_s,
            .backward_s = backward_input_s + backward_weight_s - shown.scattered_s - shown.gathered_again_s -
                          shown.hidden_again_s};
  }
};

/// The price of one layer: its times and bytes for one microbatch on one device.
struct LayerPrice {
  PassTimes times;
  LayerPasses passes{};
  double kept_bytes = 0;
  /// The part of kept_bytes that the action I (gradient of the input) releases.
  double released_by_input = 0;
  /// The additional bytes that a device holds from the action I (gradient of the input) to the action W
  /// (gradient of the weights).
  double recomputed_bytes = 0;
  double transient_bytes = 0;
  /// The part of transient_bytes that recomputed_bytes also contains. It matters only if the backward pass
  /// is divided into I and W.
  double recomputed_at_once = 0;
  /// The additional bytes that a device holds if the weights of the next layer are gathered at the same
  /// time.
  double next_weight_bytes = 0;
  DeviceParameters parameters;
};

/// The price of the embedding. It takes no time except for the exchanges between copies of its weights.
struct EmbeddingPrice {
  PassTimes times;
  double transient_bytes = 0;
  /// The additional bytes that a device holds if the weights of the next layer are gathered at the same
  /// time.
  double next_weight_bytes = 0;
  DeviceParameters parameters;
};

/// The price of the head: the matrix product, the loss, and the multi-token-prediction layers. The last
/// stage runs them after its layers.
struct HeadPrice {
  /// The times of the product and the loss.
  PassTimes times;
  LayerPasses passes{};
  double transient_bytes = 0;
  /// The additional bytes that a device holds if the weights of another part are gathered at the same time.
  double next_weight_bytes = 0;
  /// The numbers of parameters of the head on a rank without the embedding.
  DeviceParameters parameters;
  /// The numbers of parameters of the head on a rank that also has the embedding. A tied head then uses the
  /// embedding's matrix.
  DeviceParameters beside_embedding;
  /// The prices of the multi-token-prediction layers, without their heads. The last stage also runs one
  /// head like the model's for each of them.
  std::vector<LayerPrice> multi_token{};
};

/// The prices (times and bytes) of all layers of a workload. In only two cases they depend on the numbers
/// of stages and copies. Either an expert group extends over several copies, or copies divide gradients
/// (Parallel::sharding 2 and 3).
class LayerPrices {
 public:
  using Kinds = std::bitset<kMostLayerKinds>;

  /// Computes the prices of all layers. Requires a model of at most kMostLayerKinds kinds of layers.
  LayerPrices(const Workload& work, const KernelTables& kernels);

  /// Returns the price of a layer. Layers of the model are numbered from 0.
  const LayerPrice& of_layer(std::size_t layer) const { return kinds_[kind_of_layer_[layer]].price; }
  /// Returns the price that a layer has without recomputation. Requires that only some layers are
  /// recomputed (Workload::recomputed_layers).
  const LayerPrice& of_plain_layer(std::size_t layer) const { return plain_[kind_of_layer_[layer]]; }
  std::size_t kind_of_layer(std::size_t layer) const { return kind_of_layer_[layer]; }
  const EmbeddingPrice& embedding() const { return embedding_; }
  const HeadPrice& head() const { return head_; }
  /// Returns the bytes of placeholder gradients on a rank with layers of these kinds (see
  /// placeholder_bytes() of layer_memory.hpp). A weight shape counts once, even if several kinds have it.
  double placeholder_bytes(const Kinds& kinds) const;

 private:
  struct Kind {
    LayerPrice price;
    WeightShapes shapes;
  };
  std::vector<Kind> kinds_;
  /// The prices without recomputation, by kind of layer; empty unless only some layers are recomputed.
  std::vector<LayerPrice> plain_;
  std::vector<std::size_t> kind_of_layer_;
  EmbeddingPrice embedding_;
  HeadPrice head_;
};

/// The price of one model stage: its seconds and bytes for one microbatch on one device of the stage's rank.
struct StagePrice {
  double forward_s = 0;
  double backward_input_s = 0;
  double backward_weight_s = 0;
  /// The seconds that an overlapped pair of F and B saves against the two passes one after the other.
  double pair_hidden_s = 0;
  /// The seconds, contained in the times above, in which the device waits for exchanges between copies of the
  /// weights.
  ShownCollectives shown;
  /// The computation in these times.
  ComputeSeconds compute;
  /// The part of `compute` that belongs to the stage's last layer, or to the head.
  ComputeSeconds last_compute;
  /// The seconds that each F, B, I and W takes in addition to its kernels.
  double action_seconds = 0;
  double kept_bytes = 0;
  /// The part of kept_bytes that the action I (gradient of the input) releases.
  double released_by_input = 0;
  /// The additional bytes that a device holds from the action I (gradient of the input) to the action W
  /// (gradient of the weights).
  double recomputed_bytes = 0;
  double transient_bytes = 0;
  /// The part of transient_bytes that recomputed_bytes also contains. It matters only if the backward pass
  /// is divided into I and W.
  double recomputed_at_once = 0;
  /// The bytes of activations that the stage sends to the next stage. It receives equally many bytes of
  /// gradients.
  double edge_bytes = 0;
  double weight_bytes = 0;
  double gradient_bytes = 0;
  double optimizer_bytes = 0;
  /// The seconds for one microbatch of the head's weight gradient, if it is deferred to the end of the step
  /// (Workload::deferred_head). No other field contains them.
  double deferred_s = 0;
  /// The bytes of one microbatch that the deferred weight gradient reads. The device stores them until the
  /// end of the step.
  double deferred_bytes = 0;
  DeviceParameters parameters;
  /// The number of parameters that the device updates. It stores the optimizer state of these parameters.
  double updated_parameters = 0;
};

/// Returns the prices of the stages. For each stage, `layers` has the number of layers, and `rank_of_stage`
/// has the rank. The stages of a rank share placeholders of gradients. Requires lists of equal length that
/// contain all layers of the model.
std::vector<StagePrice> price_stages(const Workload& work, const KernelTables& kernels,
                                     std::span<const std::int64_t> layers,
                                     std::span<const std::int32_t> rank_of_stage);
/// Returns the same prices as the other price_stages(), but uses prices of layers that the caller has
/// computed. The caller can thus use the same layer prices for many cuts.
std::vector<StagePrice> price_stages(const Workload& work, const LayerPrices& layer_prices,
                                     std::span<const std::int64_t> layers,
                                     std::span<const std::int32_t> rank_of_stage);

/// Returns the prices of layers on each kind of device of the workload: on `work.device`, and then on each
/// entry of `work.later_devices`. `kernels` are those of `work.device`.
std::vector<LayerPrices> layer_prices_of_kinds(const Workload& work, const KernelTables& kernels);
/// Returns the prices of the stages, each on its own kind of device. `of_kinds` has the prices of layers on
/// each kind, in the order of layer_prices_of_kinds().
std::vector<StagePrice> price_stages(const Workload& work, std::span<const LayerPrices> of_kinds,
                                     std::span<const std::int64_t> layers,
                                     std::span<const std::int32_t> rank_of_stage);

/// The seconds that a rank works once a step, in addition to its microbatches. Work that overlaps with
/// other work does not count.
struct RankStep {
  /// The exposed seconds of reducing gradients and gathering weights.
  double reduction_s = 0;
  double optimizer_s = 0;
  /// The seconds of a step that the user states (Workload::step_seconds). No other field contains them.
  double other_s = 0;
  double total_s() const { return reduction_s + optimizer_s + other_s; }
};

/// Returns the seconds that a rank with these parameters waits for reducing gradients and gathering
/// weights. `beside` is the computation of a microbatch that can overlap with these exchanges. It is the
/// backward pass after the first gradients are complete, and the forward pass before the last weights are
/// needed. `shown` is the time that is already exposed in each microbatch with sharding 2 and 3.
double reduction_seconds(const Workload& work, const KernelTables& kernels,
                         const DeviceParameters& parameters, const ComputeSeconds& beside,
                         const ShownCollectives& shown);

/// Returns the longest of the ranks' steps. All ranks wait until it has ended.
RankStep longest_step(const Workload& work, const KernelTables& kernels, std::span<const StagePrice> stages,
                      std::span<const std::int32_t> rank_of_stage);

}  // namespace penstock
