#pragma once
// Combines the pieces of a model that one stage holds into one layer. Used only by models.cpp.

#include <vector>

#include <ATen/core/Tensor.h>

#include "backend/torch/layer.hpp"
#include "backend/torch/models.hpp"

namespace penstock::nn {

/// Returns one layer for each stage of the cut, with the weights of its pieces in ascending order. Its input
/// is what earlier stages leave alive, and its output what it leaves alive: one tensor unchanged, or several
/// flattened to [samples, features] and concatenated. `input` is that of split().
std::vector<LayerPointer> stage_graphs(const Model& model, const Cut& cut, const at::Tensor& input);

}  // namespace penstock::nn
