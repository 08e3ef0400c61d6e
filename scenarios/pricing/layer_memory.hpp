#pragma once
// Computes the bytes and parameters of layers on one device of a rank. The bytes agree with what a memory
// allocator reports.

#include <cstdint>
#include <set>
#include <utility>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/pricing/workload.hpp"

namespace penstock {

/// The number of parameters that one device stores. Experts are counted separately, because they have fewer
/// copies than other weights.
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
DeviceParameters layer_device_parameters(const Workload& given, const LayerKind& kind);
/// Returns the parameters of the embedding on one device.
DeviceParameters embedding_device_parameters(const Workload& work);
/// Returns the parameters of the head and the final norm. If a tied head is not on the rank of the embedding,
/// the device stores a copy of the embedding's weights.
DeviceParameters head_device_parameters(const Workload& work, bool beside_embedding);
/// Returns the parameters of one multi-token-prediction layer on one device.
DeviceParameters multi_token_device_parameters(const Workload& work);

/// The numbers of a layer's norms over the whole hidden width.
struct LayerNorms {
  /// The number of norms before a part of the layer, or before both parts together.
  std::int64_t before = 2;
  /// The number of norms after a part, before its result is added.
  std::int64_t behind = 0;
};
/// Returns the norms of a model's layers.
LayerNorms norms_around(const Architecture& model);

/// Returns the bytes that a device stores for one layer from F to B, for one microbatch.
double kept_bytes(const Workload& work, const LayerKind& kind);
/// Returns the part of kept_bytes() that I releases. It consists of scores and their dropout, which W does
/// not read. It is 0 with fused attention.
double released_by_input(const Workload& work, const LayerKind& kind);
/// Returns the bytes of a layer that the backward pass recomputes for one microbatch and that W reads. They
/// are not in kept_bytes().
double recomputed_bytes(const Workload& work, const LayerKind& kind);

/// The shapes (rows, columns) of weights on one device.
using WeightShapes = std::set<std::pair<std::int64_t, std::int64_t>>;
/// Returns the weight shapes of a layer's products. The router does not count.
WeightShapes weight_shapes(const Workload& given, const LayerKind& kind);
/// Returns the bytes of Transformer Engine's placeholders, with 2 bytes for each value. Transformer Engine
/// allocates an unused gradient for each distinct weight shape, because its products add the real gradients
/// to their sums directly.
double placeholder_bytes(const WeightShapes& shapes);

/// Returns the bytes that the kernels of a layer hold only while they run.
double layer_transient_bytes(const Workload& given, const LayerKind& kind);
/// Returns the bytes that a layer needs at most while it runs forward without a backward to follow. They are
/// the activations that training would keep, and the output.
double forward_bytes(const Workload& work, const LayerKind& kind);
/// Returns the bytes that later tokens of the same sequences need of a layer: keys and values, or the states
/// of a recurrence.
double cached_bytes(const Workload& work, const LayerKind& kind);
/// Returns the part of layer_transient_bytes() that consists of recomputed activations.
double recomputed_at_once(const Workload& work, const LayerKind& kind);
/// Returns the bytes that the head needs only while it runs: the logits, their gradient, the gradient of the
/// head's weights, and copies of the head's input.
double head_transient_bytes(const Workload& work);
/// The bytes of memory that are not part of any other figure.
inline constexpr double kOtherBytes = 0.05 * (1 << 30);

/// Returns the bytes of a weight: 2 for bf16 and 1 for 8-bit values. On Hopper 8-bit values also take 2,
/// because Hopper needs a transposed copy.
double weight_bytes(const Workload& work);

}  // namespace penstock
