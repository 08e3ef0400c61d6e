// Computes figure * wanted / own with a product of 128 bits, because the product may exceed 64 bits even if
// the quotient fits.

#include "scenarios/prepare/scaling.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "schedules/ir/action.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {

std::int64_t Scaler::operator()(std::int64_t figure) {
  const Wide scaled = (static_cast<Wide>(figure) * scaling_.wanted + scaling_.own / 2) / scaling_.own;
  overflowed_ |= scaled > std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(scaled);
}

Ns Scaler::with_overhead(Ns scaled_ns, Ns overhead_ns) {
  Ns sum = 0;
  overflowed_ |= __builtin_add_overflow(scaled_ns, overhead_ns, &sum);
  return sum;
}

std::string Scaler::overflow() const {
  return fmt::format("the model's figures for {} samples become more than 2^63 when scaled to {}",
                     scaling_.own, scaling_.wanted);
}

// --- scaled layers ---------------------------------------------------------------------------------------
//
// Weights do not depend on the number of samples. All other figures of a layer scale with it.

tl::expected<LayerGraph, std::string> scaled_layers(LayerGraph graph, Scaling scaling) {
  Scaler scale(scaling);
  for (Layer& layer : graph.layers) {
    layer.forward_ns = scale(layer.forward_ns);
    layer.backward_ns = scale(layer.backward_ns);
    layer.output = scale(layer.output);
    if (layer.kept) layer.kept = scale(*layer.kept);
    layer.transient = scale(layer.transient);
    layer.recomputed = std::min(scale(layer.recomputed), layer.transient);
  }
  if (!scale.overflowed()) return graph;
  return tl::unexpected(scale.overflow());
}

}  // namespace penstock
