#pragma once
// What of a layer is computed twice.

#include <array>
#include <cstdint>

#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// What a layer computes again in its backward pass instead of keeping it.
enum class LayerRecompute : std::uint8_t {
  none,
  selective,   // the attention core, of which a fused kernel keeps nothing: no time and no bytes
  norm,        // the outputs of both norms
  activation,  // the output of the feed-forward's activation
  mlp,         // the first product of a dense feed-forward part, also of a shared expert's
  full,        // everything but the layer's input
};
/// The words of scenarios (training.recompute), as Megatron-LM's --recompute-granularity and
/// --recompute-modules and SimuMax's tables have them.
template <>
inline constexpr auto kEnumWords<LayerRecompute> =
    std::to_array<EnumWord<LayerRecompute>>({{LayerRecompute::none, "none"},
                                             {LayerRecompute::selective, "selective"},
                                             {LayerRecompute::norm, "norm"},
                                             {LayerRecompute::activation, "activation"},
                                             {LayerRecompute::mlp, "mlp"},
                                             {LayerRecompute::full, "full"}});

}  // namespace penstock
