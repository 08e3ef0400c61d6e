#pragma once
// Bytes and parameters of layers on one device of a rank, as the allocator sees them.

#include <cstdint>
#include <set>
#include <utility>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// Parameters that one device holds. Expert weights have fewer copies than the others.
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

DeviceParameters layer_device_parameters(const Workload& work, const LayerKind& kind);
DeviceParameters embedding_device_parameters(const Workload& work);
/// The head with the final norm; a tied head on another rank than the embedding holds a copy of it.
DeviceParameters head_device_parameters(const Workload& work, bool beside_embedding);
DeviceParameters multi_token_device_parameters(const Workload& work);

/// A layer's norms of all of its hidden width.
struct LayerNorms {
  std::int64_t before = 2;  ///< in front of a part, or of both at once
  std::int64_t behind = 0;  ///< of what a part gives, before it is added
};
LayerNorms norms_around(const Architecture& model);

/// Returns the bytes held of a layer from F to B for one microbatch.
double kept_bytes(const Workload& work, const LayerKind& kind);
/// Returns the bytes that the backward pass computes again of a layer, for one microbatch: what W reads
/// beside kept_bytes().
double recomputed_bytes(const Workload& work, const LayerKind& kind);

/// Shapes of weights (rows, columns) on one device.
using WeightShapes = std::set<std::pair<std::int64_t, std::int64_t>>;
/// Those of a layer's products, router apart.
WeightShapes weight_shapes(const Workload& work, const LayerKind& kind);
/// Transformer Engine keeps an empty gradient of each distinct shape, as real ones are accumulated in the
/// product: 2 bytes a value.
double placeholder_bytes(const WeightShapes& shapes);

/// Returns what a layer's kernels hold while they run beside what is kept.
double layer_transient_bytes(const Workload& work, const LayerKind& kind);
/// Returns the part of layer_transient_bytes() that is activations of the layer, computed again at once.
double recomputed_at_once(const Workload& work, const LayerKind& kind);
/// Returns what layer_transient_bytes() is for a layer, of the head: logits, their gradient, its weights'
/// gradient, its input's copies.
double head_transient_bytes(const Workload& work);
/// What is held beside everything that is counted.
inline constexpr double kOtherBytes = 0.05 * (1 << 30);

/// Held for a parameter: the weight (8 bit values take 1 byte, and a transposed copy on Hopper).
double weight_bytes(const Workload& work);

}  // namespace penstock
