#pragma once
// What of a layer is computed twice.

#include <cstdint>
#include <string_view>

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
std::string_view to_text(LayerRecompute recompute);

}  // namespace penstock
