#pragma once
// Combines all pieces of a stage into one layer. Only models.cpp uses it.

#include <vector>

#include <ATen/core/Tensor.h>

#include "backend/torch/layer.hpp"
#include "backend/torch/models.hpp"

namespace penstock::nn {

/// Returns one layer for each stage of the cut, with the weights of its pieces in ascending order of pieces.
/// A stage receives all values of earlier stages that this or a later stage reads. It sends all values that
/// later stages read. One tensor is sent unchanged. Several are flattened to [samples, features] and
/// concatenated. `input` is the same as in split().
std::vector<LayerPointer> stage_graphs(const Model& model, const Cut& cut, const at::Tensor& input);

}  // namespace penstock::nn
