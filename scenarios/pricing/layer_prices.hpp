#pragma once
// What each kind of layer of a workload takes and holds on one device, priced once: what stages are summed
// from.

#include <bitset>
#include <cstddef>
#include <vector>

#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_memory.hpp"
#include "scenarios/pricing/weight_copies.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// Seconds of one microbatch, as the sums of their terms.
struct PassTimes {
  double forward_s = 0;
  double backward_input_s = 0;
  double backward_weight_s = 0;
  ShownCollectives shown{};  ///< a part of these
};

/// One layer.
struct LayerPrice {
  PassTimes times;
  double kept_bytes = 0;
  double recomputed_bytes = 0;  ///< held besides from I to W
  double transient_bytes = 0;
  double recomputed_at_once = 0;  ///< the part of transient_bytes that I and W count in recomputed_bytes
  double next_weight_bytes = 0;   ///< held besides where another part of the rank's is gathered beside it
  DeviceParameters parameters;
};

/// The embedding, which takes no time but for what its copies tell each other.
struct EmbeddingPrice {
  PassTimes times;
  double transient_bytes = 0;
  double next_weight_bytes = 0;  ///< as a layer's
  DeviceParameters parameters;
};

/// What the last stage has behind its layers.
struct HeadPrice {
  PassTimes times;  ///< product and loss
  double transient_bytes = 0;
  double next_weight_bytes = 0;           ///< as a layer's
  DeviceParameters parameters;            ///< on a rank without the embedding
  DeviceParameters beside_embedding;      ///< on the embedding's rank, whose matrix a tied head has
  std::vector<LayerPrice> multi_token{};  ///< one a layer of multi-token prediction
};

/// All layers of one workload. Of the numbers of stages and of copies of the pipeline they know only over
/// how many NVLink domains a group of experts that reaches beyond one copy is spread; where copies share out
/// gradients (Parallel::sharding 2 and 3), how many there are and where.
class LayerPrices {
 public:
  /// Kinds of layers that are told apart.
  static constexpr std::size_t kMostKinds = 64;
  using Kinds = std::bitset<kMostKinds>;

  /// Requires a model of at most kMostKinds kinds of layers.
  LayerPrices(const Workload& work, const KernelTables& kernels);

  /// Of the model's layer of that number.
  const LayerPrice& of_layer(std::size_t layer) const { return kinds_[kind_of_layer_[layer]].price; }
  std::size_t kind_of_layer(std::size_t layer) const { return kind_of_layer_[layer]; }
  const EmbeddingPrice& embedding() const { return embedding_; }
  const HeadPrice& head() const { return head_; }
  /// Bytes of placeholders of gradients on a rank with layers of these kinds: shapes that several have count
  /// once.
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

}  // namespace penstock
