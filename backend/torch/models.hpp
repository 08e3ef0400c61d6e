#pragma once
// Models to train: a graph of pieces, and cutting it into the stages of a pipeline.

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "backend/torch/layer.hpp"
#include "backend/torch/loss.hpp"
#include "backend/torch/torch_stage.hpp"

namespace penstock::nn {

/// One layer of a model, the smallest part that a stage may hold.
struct Piece {
  std::string name;  ///< of its kind: "Linear"
  LayerPointer layer;
  /// Pieces before it, whose outputs are summed; empty: the model's own input.
  std::vector<std::int32_t> inputs;
};

/// Pieces in an order in which they can run. The last one's output goes into the loss; every other one's is
/// read by a later piece.
struct Model {
  std::vector<Piece> pieces;
  Loss loss = Loss::mean_squared_error;

  /// A piece that reads the one before it.
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
/// Embedding, blocks with four times the width inside, norm and linear: predicts the token that follows.
Model transformer(const TransformerShape& shape);

struct SplitOptions {
  std::uint64_t seed = 1;             ///< of the initial weights
  at::ScalarType type = at::kDouble;  ///< of weights and activations
  at::Device device = at::Device(at::kCPU);
  std::vector<bool> drawn{};  ///< by stage: weights are drawn; empty: of all stages
};

/// Numbers of pieces, by stage.
using Cut = std::vector<std::vector<std::int32_t>>;
/// Neighbouring pieces, their numbers as even as can be; some stages are empty where there are more of them
/// than pieces. Requires stages >= 1.
Cut even_cut(const Model& model, std::int32_t stages);

/// One definition a stage. The weights of a piece depend on the seed and its place in the model, not on the
/// cut; a stage without a piece passes its input on. Requires each piece in one stage, not before those that
/// it reads. Where several tensors are alive across a cut they travel flattened and laid side by side;
/// `input`, one microbatch of the model's input, tells their shapes then and is else not used.
std::vector<StageDefinition> split(const Model& model, const Cut& cut, const SplitOptions& options,
                                   const at::Tensor& input = {});

}  // namespace penstock::nn
