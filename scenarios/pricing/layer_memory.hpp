#pragma once
// Computes the bytes and parameters of layers on one device of a rank. The bytes are those that a memory
// allocator would report.

#include <cstdint>
#include <set>
#include <utility>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// The numbers of parameters that one device stores. Experts are counted separately, because their weights
/// have fewer copies than others.
struct DeviceParameters {
  double dense = 0;
  double expert = 0;
  double total() const { return dense + expert; }
  DeviceParameters& operator+=(const DeviceParameters& other) {
    dense += other.dense;
    expert += other.expert;
    return *this;
  }
};

/// Returns the number of parameters that one device stores of a layer.
DeviceParameters layer_device_parameters(const Workload& given, const LayerKind& kind);
/// Returns the number of parameters that one device stores of the embedding.
DeviceParameters embedding_device_parameters(const Workload& work);
/// Returns the number of parameters that one device stores of the head and the final norm.
/// `beside_embedding` is true if the rank also has the embedding. Otherwise, a tied head stores a copy of
/// the embedding's weights.
DeviceParameters head_device_parameters(const Workload& work, bool beside_embedding);
/// Returns the number of parameters that one device stores of a multi-token-prediction layer.
DeviceParameters multi_token_device_parameters(const Workload& work);

/// The number of norms in a layer that act on the whole hidden width.
struct LayerNorms {
  /// The number of norms before a part of the layer, or before both parts together.
  std::int64_t before = 2;
  /// The number of norms after a part, before its result is added.
  std::int64_t behind = 0;
};
/// Returns the numbers of norms before and after the parts of each layer of the model.
LayerNorms norms_around(const Architecture& model);

/// Returns the bytes that a device stores for one layer and one microbatch, from its forward pass F to its
/// backward pass B.
double kept_bytes(const Workload& work, const LayerKind& kind);
/// Returns the part of kept_bytes() that the action I (gradient of the input) releases. It consists of
/// attention scores and their dropout, which W does not read. It is 0 with fused attention.
double released_by_input(const Workload& work, const LayerKind& kind);
/// Returns the bytes of a layer's activations that the backward pass recomputes for one microbatch, and
/// that the action W (gradient of the weights) reads. kept_bytes() does not contain them.
double recomputed_bytes(const Workload& work, const LayerKind& kind);

/// The shapes (rows, columns) of weights on one device.
using WeightShapes = std::set<std::pair<std::int64_t, std::int64_t>>;
/// Returns the shapes of the weight matrices in a layer's products. The router's matrix does not count.
WeightShapes weight_shapes(const Workload& given, const LayerKind& kind);
/// Returns the bytes of the placeholder gradients that Transformer Engine allocates, with 2 bytes for each
/// value. It allocates one unused gradient for each distinct weight shape. The reason is that its products
/// add the real gradients directly to their sums.
double placeholder_bytes(const WeightShapes& shapes);

/// Returns the bytes that the kernels of a layer hold only while they run.
double layer_transient_bytes(const Workload& given, const LayerKind& kind);
/// Returns the most bytes that a layer needs in a forward pass that no backward pass follows. They are its
/// output and the activations that training would keep for the backward pass.
double forward_bytes(const Workload& work, const LayerKind& kind);
/// Returns the bytes of a layer that later tokens of the same sequences need: keys and values, or the
/// states of a recurrence.
double cached_bytes(const Workload& work, const LayerKind& kind);
/// Returns the part of layer_transient_bytes() that consists of recomputed activations.
double recomputed_at_once(const Workload& work, const LayerKind& kind);
/// Returns the bytes that the head needs only while it runs: the logits, their gradient, the gradient of the
/// head's weights, and copies of the head's input.
double head_transient_bytes(const Workload& work);
/// The bytes of memory on each device that no other term of the memory estimate counts.
inline constexpr double kOtherBytes = 0.05 * (1 << 30);

/// Returns the bytes of a weight: 2 for bf16 and 1 for 8-bit values. On Hopper 8-bit values also take 2,
/// because Hopper needs a transposed copy.
double weight_bytes(const Workload& work);

}  // namespace penstock
