#pragma once
// The pieces of a model that one stage holds, as one layer. Private to models.cpp.

#include <vector>

#include <ATen/core/Tensor.h>

#include "backend/torch/layer.hpp"
#include "backend/torch/models.hpp"

namespace penstock::nn {

/// One layer a stage of the cut, with the weights of its pieces in ascending order. It takes what the stages
/// before it leave alive and gives what it leaves alive itself: one tensor as it is, several flattened to
/// [samples, features] and laid side by side. `input`: as split() has it.
std::vector<LayerPointer> stage_graphs(const Model& model, const Cut& cut, const at::Tensor& input);

}  // namespace penstock::nn
