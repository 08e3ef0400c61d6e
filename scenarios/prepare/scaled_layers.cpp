// Weights belong to a layer, however many samples it sees; all else of it is the samples'.

#include "scenarios/prepare/scaled_layers.hpp"

#include <algorithm>
#include <string>

#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/scaling.hpp"

namespace penstock {

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
