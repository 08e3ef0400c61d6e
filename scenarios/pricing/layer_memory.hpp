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

/// Bytes held of a layer from F to B for one microbatch.
double kept_bytes(const Workload& work, const LayerKind& kind);

/// Shapes of weights (rows, columns) on one device.
using WeightShapes = std::set<std::pair<std::int64_t, std::int64_t>>;
/// Those of a layer's products, router apart.
WeightShapes weight_shapes(const Workload& work, const LayerKind& kind);
/// Transformer Engine keeps an empty gradient of each distinct shape, as real ones are accumulated in the
/// product: 2 bytes a value.
double placeholder_bytes(const WeightShapes& shapes);

/// What a layer's kernels hold while they run beside what is kept.
double layer_transient_bytes(const Workload& work, const LayerKind& kind);
/// The same of the head: logits, their gradient, its weights' gradient, its input's copies.
double head_transient_bytes(const Workload& work);
/// What is held beside everything that is counted.
inline constexpr double kOtherBytes = 0.05 * (1 << 30);

/// Held for a parameter: the weight (8 bit values take 1 byte, and a transposed copy on Hopper).
double weight_bytes(const Workload& work);

}  // namespace penstock
