#pragma once
// The transformer of backend/torch/models.hpp as one expression that autograd differentiates, and its data.

#include <cstdint>

#include "backend/torch/layer.hpp"
#include "backend/torch/models.hpp"

namespace penstock::nn {

/// Of one microbatch, from the weights of all stages end to end. Without dropout.
at::Tensor unsplit_loss(const TransformerShape& shape, const Tensors& weights, std::int32_t microbatch);

/// Random token numbers [2, positions], and for each the one that shall follow.
at::Tensor tokens_of(const TransformerShape& shape, std::int32_t microbatch);
at::Tensor targets_of(const TransformerShape& shape, std::int32_t microbatch);

}  // namespace penstock::nn
