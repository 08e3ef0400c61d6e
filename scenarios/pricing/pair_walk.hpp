#pragma once
// Computes the time of an overlapped pair: the forward pass of one microbatch beside the backward pass of
// another, in which the exchanges of experts in one pass run beside the computation of the other.

#include <array>
#include <span>

#include "scenarios/pricing/layer_terms.hpp"

namespace penstock {

/// The seconds of the parts of a layer in one pass, by LayerPart.
using PartSeconds = std::array<double, kLayerPartCount>;

/// The seconds of the parts of a layer in both passes.
struct LayerPasses {
  PartSeconds forward{};
  /// The part of the backward pass that computes the input's gradient (I).
  PartSeconds backward{};
  /// The weight gradients (W), for which no exchange waits.
  PartSeconds weight{};

  /// Returns true if a pass has an exchange.
  bool exchanges() const;
};

/// Returns the parts of a layer with these terms.
LayerPasses passes_of(std::span<const Term> terms);

/// Returns the seconds of a pair over the same layers. It is never shorter than all computation or all
/// exchanges, and never longer than their sum.
double pair_seconds(std::span<const LayerPasses> layers);

/// Returns the seconds by which a pair is shorter than its two passes one after the other.
double hidden_seconds(std::span<const LayerPasses> layers);

}  // namespace penstock
