#pragma once
// The time and memory of a workload on one device: of each kind of layer, priced once, of each model stage,
// and of a rank's step.

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "scenarios/pricing/collectives.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_memory.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// The seconds of a microbatch without what it waits for exchanges between copies. Other exchanges between
/// copies can run beside them.
struct ComputeSeconds {
  double forward_s = 0;
  double backward_s = 0;
  ComputeSeconds& operator+=(const ComputeSeconds& other) {
    forward_s += other.forward_s;
    backward_s += other.backward_s;
    return *this;
  }
};

/// The seconds of one microbatch, as sums of terms.
struct PassTimes {
  double forward_s = 0;
  double backward_input_s = 0;
  double backward_weight_s = 0;
  /// The part of these times that is exposed collectives.
  ShownCollectives shown{};

  ComputeSeconds compute() const {
    return {.forward_s = forward_s - shown.gathered_s,
            .backward_s = backward_input_s + backward_weight_s - shown.scattered_s - shown.gathered_again_s};
  }
};

/// The price of one layer.
struct LayerPrice {
  PassTimes times;
  double kept_bytes = 0;
  /// The additional bytes that are held from I to W.
  double recomputed_bytes = 0;
  double transient_bytes = 0;
  /// The part of transient_bytes that I and W count in recomputed_bytes.
  double recomputed_at_once = 0;
  /// The additional bytes while another part of the rank is gathered at the same time.
  double next_weight_bytes = 0;
  DeviceParameters parameters;
};

/// The price of the embedding, which takes no time except for the exchanges of its copies.
struct EmbeddingPrice {
  PassTimes times;
  double transient_bytes = 0;
  /// The additional bytes, as for a layer.
  double next_weight_bytes = 0;
  DeviceParameters parameters;
};

/// The price of what the last stage runs after its layers.
struct HeadPrice {
  /// The times of the product and the loss.
  PassTimes times;
  double transient_bytes = 0;
  /// The additional bytes, as for a layer.
  double next_weight_bytes = 0;
  /// The parameters on a rank without the embedding.
  DeviceParameters parameters;
  /// The parameters on the embedding's rank, whose matrix a tied head uses.
  DeviceParameters beside_embedding;
  /// One price for each layer of multi-token prediction.
  std::vector<LayerPrice> multi_token{};
};

/// The prices of all layers of a workload. They mostly do not depend on the number of stages and copies.
/// Exceptions are an expert group that spans several copies, whose NVLink domains count, and shared gradients
/// (Parallel::sharding 2 and 3), where the number and place of copies count.
class LayerPrices {
 public:
  /// The most kinds of layers that are distinguished.
  static constexpr std::size_t kMostKinds = 64;
  using Kinds = std::bitset<kMostKinds>;

  /// Prices all layers. Requires a model of at most kMostKinds kinds of layers.
  LayerPrices(const Workload& work, const KernelTables& kernels);

  /// Returns the price of the model's layer with that number.
  const LayerPrice& of_layer(std::size_t layer) const { return kinds_[kind_of_layer_[layer]].price; }
  std::size_t kind_of_layer(std::size_t layer) const { return kind_of_layer_[layer]; }
  const EmbeddingPrice& embedding() const { return embedding_; }
  const HeadPrice& head() const { return head_; }
  /// Returns the bytes of placeholders for gradients on a rank with layers of these kinds. Shapes of several
  /// kinds count once.
  double placeholder_bytes(const Kinds& kinds) const;

 private:
  struct Kind {
    LayerPrice price;
    WeightShapes shapes;
  };
  std::vector<Kind> kinds_;
  std::vector<std::size_t> kind_of_layer_;
  EmbeddingPrice embedding_;
  HeadPrice head_;
};

// The time and memory of each model stage of a workload on one device of its rank.

/// The price of one model stage: seconds and bytes of one microbatch.
struct StagePrice {
  double forward_s = 0;
  double backward_input_s = 0;
  double backward_weight_s = 0;
  /// The part of these times that is exposed collectives.
  ShownCollectives shown;
  /// The computation in these times, and the part of it that belongs to the stage's last layer or head.
  ComputeSeconds compute;
  ComputeSeconds last_compute;
  double kept_bytes = 0;
  /// The additional bytes that are held from I to W.
  double recomputed_bytes = 0;
  double transient_bytes = 0;
  /// The part of transient_bytes that I and W count in recomputed_bytes.
  double recomputed_at_once = 0;
  /// The bytes that are sent forward over the outgoing edge, and back as a gradient.
  double edge_bytes = 0;
  double weight_bytes = 0;
  double gradient_bytes = 0;
  double optimizer_bytes = 0;
  /// The time and memory of the head's deferred weight gradient, for one microbatch
  /// (Workload::deferred_head). The time is in no other field. The bytes are its inputs, which are held to
  /// the end of the step.
  double deferred_s = 0;
  double deferred_bytes = 0;
  DeviceParameters parameters;
  /// The parameters whose optimizer state the device holds and which it updates.
  double updated_parameters = 0;
};

/// Returns the prices of the stages. `layers` has the layers of each stage, and `rank_of_stage` the rank of
/// each stage. The stages of a rank share placeholders of gradients. Requires both to have equal lengths, and
/// that the layers are those of the model.
std::vector<StagePrice> price_stages(const Workload& work, const KernelTables& kernels,
                                     std::span<const std::int64_t> layers,
                                     std::span<const std::int32_t> rank_of_stage);
/// Like the function above, with layers that were priced before.
std::vector<StagePrice> price_stages(const Workload& work, const LayerPrices& layer_prices,
                                     std::span<const std::int64_t> layers,
                                     std::span<const std::int32_t> rank_of_stage);

// The work of a rank once a step: exchanges of gradients and weights between its copies, and the optimizer.

/// The seconds of a rank's step beside its microbatches, as far as other work does not hide them.
struct RankStep {
  /// The reduction of gradients and the gathering of weights.
  double reduction_s = 0;
  double optimizer_s = 0;
  double total_s() const { return reduction_s + optimizer_s; }
};

/// Returns the exposed seconds of the gradients' reduction and of gathering weights, on a rank that holds
/// these parameters. `beside` is the computation of one microbatch that hides them: the backward pass after
/// the rank's first gradients are complete, and the forward pass before its last weights are needed. `shown`
/// is what each microbatch already exposes of them with sharding 2 and 3.
double reduction_seconds(const Workload& work, const KernelTables& kernels,
                         const DeviceParameters& parameters, const ComputeSeconds& beside,
                         const ShownCollectives& shown);

/// Returns the longest step of all ranks, for which all ranks wait.
RankStep longest_step(const Workload& work, const KernelTables& kernels, std::span<const StagePrice> stages,
                      std::span<const std::int32_t> rank_of_stage);

}  // namespace penstock
