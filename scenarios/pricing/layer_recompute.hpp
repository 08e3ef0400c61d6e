#pragma once
// The parts of a layer that the backward pass computes again.

#include <array>
#include <cstdint>

#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The part of a layer that its backward pass computes again instead of storing its activations.
enum class LayerRecompute : std::uint8_t {
  none,
  // The attention core. A fused kernel stores nothing, so this choice changes neither time nor bytes.
  selective,
  norm,        // the outputs of both norms
  activation,  // the output of the feed-forward's activation
  mlp,         // the first product of a dense feed-forward part or of a shared expert
  full,        // everything except the layer's input
};
/// The words of training.recompute in scenarios. They follow Megatron-LM's --recompute-granularity and
/// --recompute-modules, and the tables of SimuMax.
template <>
inline constexpr auto kEnumWords<LayerRecompute> =
    std::to_array<EnumWord<LayerRecompute>>({{LayerRecompute::none, "none"},
                                             {LayerRecompute::selective, "selective"},
                                             {LayerRecompute::norm, "norm"},
                                             {LayerRecompute::activation, "activation"},
                                             {LayerRecompute::mlp, "mlp"},
                                             {LayerRecompute::full, "full"}});

}  // namespace penstock
