#pragma once
// The parts of a layer that are computed twice.

#include <array>
#include <cstdint>

#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The part of a layer that its backward pass computes again instead of storing it.
enum class LayerRecompute : std::uint8_t {
  none,
  selective,   // the attention core, of which a fused kernel stores nothing: no time and no bytes
  norm,        // the outputs of both norms
  activation,  // the output of the feed-forward's activation
  mlp,         // the first product of a dense feed-forward part, also that of a shared expert
  full,        // everything except the layer's input
};
/// The words in scenarios (training.recompute). They follow Megatron-LM's --recompute-granularity and
/// --recompute-modules, and SimuMax's tables.
template <>
inline constexpr auto kEnumWords<LayerRecompute> =
    std::to_array<EnumWord<LayerRecompute>>({{LayerRecompute::none, "none"},
                                             {LayerRecompute::selective, "selective"},
                                             {LayerRecompute::norm, "norm"},
                                             {LayerRecompute::activation, "activation"},
                                             {LayerRecompute::mlp, "mlp"},
                                             {LayerRecompute::full, "full"}});

}  // namespace penstock
