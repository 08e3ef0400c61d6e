#pragma once
// Models that are a straight chain of layers.

#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/model/model.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

struct LayerSizes {
  Bytes output = 0;
  Bytes weights = 0;
};

/// Layers l0, l1, ... of the given times (a third of each is the forward's) and equal sizes.
inline LayerGraph layer_chain(const std::vector<Ns>& times, const LayerSizes& sizes) {
  LayerGraph graph;
  for (const Ns time : times) {
    const auto index = static_cast<std::int32_t>(graph.layers.size());
    graph.layers.push_back({.name = "l" + std::to_string(index),
                            .forward_ns = time / 3,
                            .backward_ns = time - time / 3,
                            .output = sizes.output,
                            .weights = sizes.weights,
                            .inputs = index == 0 ? std::vector<std::int32_t>{} : std::vector{index - 1}});
  }
  return graph;
}

/// The same with outputs of 100 bytes and weights of 10.
inline LayerGraph chain(const std::vector<Ns>& times) {
  return layer_chain(times, {.output = 100, .weights = 10});
}

}  // namespace penstock
