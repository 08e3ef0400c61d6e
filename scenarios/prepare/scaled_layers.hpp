#pragma once
// Layers for another number of samples than their figures hold for.

#include <string>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/scaling.hpp"

namespace penstock {

/// Times and bytes scaled to other samples. Error: a figure beyond 2^63.
tl::expected<LayerGraph, std::string> scaled_layers(LayerGraph graph, Scaling scaling);

}  // namespace penstock
