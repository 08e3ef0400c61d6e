#pragma once
// Small models to train, and cutting a model into stages.

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "backend/torch/layer.hpp"
#include "backend/torch/loss.hpp"
#include "backend/torch/torch_stage.hpp"

namespace penstock::nn {

/// Pieces in a chain, between which a stage may end.
struct Model {
  std::vector<LayerPointer> pieces;
  Loss loss = Loss::mean_squared_error;
};

struct TransformerShape {
  std::int64_t tokens = 1;
  std::int64_t positions = 1;
  std::int64_t width = 1;
  std::int64_t heads = 1;
  std::int64_t blocks = 1;
  double dropout = 0;
};
/// Embedding, blocks with four times the width inside, norm and linear: predicts the token that follows.
Model transformer(const TransformerShape& shape);

struct SplitOptions {
  std::uint64_t seed = 1;             ///< of the initial weights
  at::ScalarType type = at::kDouble;  ///< of weights and activations
  at::Device device = at::Device(at::kCPU);
};

/// `stages` definitions of neighbouring pieces, their numbers as even as can be; a stage without a piece
/// passes its input on. The weights of a piece depend on the seed and its place in the model, not on the cut.
/// Requires stages >= 1.
std::vector<StageDefinition> split(const Model& model, std::int32_t stages, const SplitOptions& options);

}  // namespace penstock::nn
