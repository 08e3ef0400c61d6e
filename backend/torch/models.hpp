#pragma once
// Models that can be trained. A model is a graph of pieces, which is cut into the stages of a pipeline.

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "backend/torch/layers.hpp"
#include "backend/torch/torch_stage.hpp"

namespace penstock::nn {

/// A layer of a model. It is the smallest part that can be assigned to a stage.
struct Piece {
  std::string name;  ///< kind of the layer, such as "Linear"
  LayerPointer layer;
  /// The earlier pieces that this one reads. It reads the sum of their outputs. If empty, it reads the
  /// model's input.
  std::vector<std::int32_t> inputs;
};

/// A list of pieces in an order in which they can run. The loss uses the output of the last piece. At least
/// one later piece reads the output of each other piece.
struct Model {
  std::vector<Piece> pieces;
  Loss loss = Loss::mean_squared_error;

  /// Adds a piece that reads the piece before it.
  void append(std::string name, LayerPointer layer);
};

struct TransformerShape {
  std::int64_t tokens = 1;
  std::int64_t positions = 1;
  std::int64_t width = 1;
  std::int64_t heads = 1;
  std::int64_t blocks = 1;
  double dropout = 0;
};
/// Returns a model that predicts the next token. It has an embedding, transformer blocks, a layer norm and a
/// linear layer. The MLPs have a hidden width of 4 * width.
Model transformer(const TransformerShape& shape);

struct SplitOptions {
  std::uint64_t seed = 1;             ///< seed of the random initial weights
  at::ScalarType type = at::kDouble;  ///< type of weights and activations
  at::Device device = at::Device(at::kCPU);
  /// True for each stage for which weights are made, by stage. If empty, weights are made for all stages.
  std::vector<bool> drawn{};
};

/// The indices of each stage's pieces, by stage.
using Cut = std::vector<std::vector<std::int32_t>>;
/// Returns a cut in which each stage has consecutive pieces. The numbers of pieces differ by at most one. If
/// there are more stages than pieces, some stages are empty. Requires stages >= 1.
Cut even_cut(const Model& model, std::int32_t stages);

/// Returns one definition for each stage. The weights of a piece depend on the seed and the piece's index,
/// not on the cut. A stage without a piece returns its input. Requires that each piece is in exactly one
/// stage, and not before the pieces that it reads. If several tensors cross a cut, they are flattened and
/// concatenated. `input` must then be one microbatch of the model's input, which determines the tensors'
/// shapes.
std::vector<StageDefinition> split(const Model& model, const Cut& cut, const SplitOptions& options,
                                   const at::Tensor& input = {});

}  // namespace penstock::nn
