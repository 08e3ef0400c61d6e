#pragma once
// Computes the time of an overlapped pair: the forward pass of one microbatch beside the backward pass of
// another. The exchanges of experts in one pass run beside the computation of the other.

#include <array>
#include <span>

#include "scenarios/pricing/layer_terms.hpp"

namespace penstock {

/// The seconds that each part of a layer takes in one pass, indexed by LayerPart.
using PartSeconds = std::array<double, kLayerPartCount>;

/// The seconds that each part of a layer takes in the forward and the backward pass.
struct LayerPasses {
  PartSeconds forward{};
  /// The part of the backward pass that computes the gradient of the input (action I).
  PartSeconds backward{};
  /// The part of the backward pass that computes the gradients of the weights (action W). No exchange waits
  /// for it.
  PartSeconds weight{};

  /// Returns true if a pass exchanges tokens with experts.
  bool exchanges() const;
};

/// Returns the times of a layer's parts, as sums over its terms.
LayerPasses passes_of(std::span<const Term> terms);

/// Returns the seconds of an overlapped pair: the forward and the backward pass of two microbatches over
/// the same layers. The result is at least the sum of all computation, and at least the sum of all
/// exchanges. It is at most the sum of both.
double pair_seconds(std::span<const LayerPasses> layers);

/// Returns the seconds by which an overlapped pair is shorter than its two passes one after the other.
double hidden_seconds(std::span<const LayerPasses> layers);

}  // namespace penstock
