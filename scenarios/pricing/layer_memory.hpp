#pragma once
// The bytes and parameters of layers on one device of a rank, as the allocator counts them.

#include <cstdint>
#include <set>
#include <utility>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// The parameters that one device holds. Experts are separate, because they have fewer copies than other
/// weights.
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

/// Returns the parameters of one layer on one device.
DeviceParameters layer_device_parameters(const Workload& work, const LayerKind& kind);
/// Returns the parameters of the embedding on one device.
DeviceParameters embedding_device_parameters(const Workload& work);
/// Returns the parameters of the head and the final norm. A tied head on another rank than the embedding
/// holds a copy of it.
DeviceParameters head_device_parameters(const Workload& work, bool beside_embedding);
/// Returns the parameters of one multi-token-prediction layer on one device.
DeviceParameters multi_token_device_parameters(const Workload& work);

/// The norms of a layer over its whole hidden width.
struct LayerNorms {
  /// The norms before a part, or before both parts together.
  std::int64_t before = 2;
  /// The norms after a part, before its result is added.
  std::int64_t behind = 0;
};
/// Returns the norms of a model's layers.
LayerNorms norms_around(const Architecture& model);

/// Returns the bytes of a layer that are held from F to B for one microbatch.
double kept_bytes(const Workload& work, const LayerKind& kind);
/// Returns the bytes of a layer that the backward pass recomputes for one microbatch. W reads them beside
/// kept_bytes().
double recomputed_bytes(const Workload& work, const LayerKind& kind);

/// The shapes (rows, columns) of weights on one device.
using WeightShapes = std::set<std::pair<std::int64_t, std::int64_t>>;
/// Returns the shapes of a layer's products without the router.
WeightShapes weight_shapes(const Workload& work, const LayerKind& kind);
/// Returns the bytes of placeholders, 2 for each value. Transformer Engine holds an empty gradient for each
/// distinct shape, because the product itself accumulates the real gradients.
double placeholder_bytes(const WeightShapes& shapes);

/// Returns the bytes that a layer's kernels hold only while they run.
double layer_transient_bytes(const Workload& work, const LayerKind& kind);
/// Returns the part of layer_transient_bytes() that consists of recomputed activations of the layer.
double recomputed_at_once(const Workload& work, const LayerKind& kind);
/// Returns the same bytes for the head as layer_transient_bytes() does for a layer: logits, their gradient,
/// the gradient of its weights, and copies of its input.
double head_transient_bytes(const Workload& work);
/// Memory beside everything that is counted.
inline constexpr double kOtherBytes = 0.05 * (1 << 30);

/// Returns the bytes of a weight: 2 for bf16, 1 for 8-bit values, and 2 on Hopper, which needs a transposed
/// copy.
double weight_bytes(const Workload& work);

}  // namespace penstock
