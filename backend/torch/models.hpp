#pragma once
// Models that can be trained in a pipeline. A model is a graph of pieces (layers), which is cut into
// stages.

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "backend/torch/layers.hpp"
#include "backend/torch/torch_stage.hpp"

namespace penstock::nn {

/// A layer of a model, as the smallest part that can be assigned to a stage.
struct Piece {
  std::string name;  ///< kind of the layer, such as "Linear"
  LayerPointer layer;
  /// The indices of the earlier pieces that this piece reads. Its input is the sum of their outputs. If the
  /// list is empty, its input is the model's input.
  std::vector<std::int32_t> inputs;
};

/// A list of pieces in an order in which they can run. The loss uses the output of the last piece. The
/// output of every other piece is read by at least one later piece.
struct Model {
  std::vector<Piece> pieces;
  Loss loss = Loss::mean_squared_error;

  /// Adds a piece whose input is the output of the last piece in the list.
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
  /// True for each stage whose weights are drawn at random, by stage. If the list is empty, the weights of
  /// all stages are drawn.
  std::vector<bool> drawn{};
};

/// A division of a model into stages: for each stage, the indices of its pieces.
using Cut = std::vector<std::vector<std::int32_t>>;
/// Returns a division in which each stage has consecutive pieces. The numbers of pieces of two stages
/// differ by at most one. If there are more stages than pieces, some stages are empty. Requires stages >=
/// 1.
Cut even_cut(const Model& model, std::int32_t stages);

/// Returns one definition for each stage of the cut. The weights of a piece depend on the seed and the
/// piece's index, not on the cut. A stage without a piece returns its input. Each piece must be in exactly
/// one stage, and not in an earlier stage than the pieces that it reads. If several tensors pass between
/// two stages, they are flattened and concatenated. `input` must then be one microbatch of the model's
/// input, which determines the tensors' shapes.
std::vector<StageDefinition> split(const Model& model, const Cut& cut, const SplitOptions& options,
                                   const at::Tensor& input = {});

}  // namespace penstock::nn
