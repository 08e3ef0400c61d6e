#pragma once
// Models to train: a graph of pieces, and its cut into the stages of a pipeline.

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
  std::string name;  ///< name of its kind: "Linear"
  LayerPointer layer;
  /// Earlier pieces whose outputs are summed; empty: the model's input.
  std::vector<std::int32_t> inputs;
};

/// Pieces in an order in which they can run. The loss uses the output of the last one; a later piece reads
/// the output of each other one.
struct Model {
  std::vector<Piece> pieces;
  Loss loss = Loss::mean_squared_error;

  /// Adds a piece that reads the one before it.
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
/// Returns embedding, blocks with an inner width of four times the width, norm and linear. It predicts the
/// next token.
Model transformer(const TransformerShape& shape);

struct SplitOptions {
  std::uint64_t seed = 1;             ///< seed of the initial weights
  at::ScalarType type = at::kDouble;  ///< type of weights and activations
  at::Device device = at::Device(at::kCPU);
  std::vector<bool> drawn{};  ///< by stage: its weights are drawn; empty: those of all stages are
};

/// Numbers of the pieces of each stage.
using Cut = std::vector<std::vector<std::int32_t>>;
/// Returns a cut into neighbouring pieces, with numbers of pieces as equal as possible. With more stages than
/// pieces some stages are empty. Requires stages >= 1.
Cut even_cut(const Model& model, std::int32_t stages);

/// Returns one definition for each stage. The weights of a piece depend on the seed and its index in the
/// model, not on the cut. A stage without a piece returns its input. Each piece must be in exactly one stage,
/// and not before the pieces that it reads. Several tensors that cross a cut are flattened and concatenated.
/// In that case `input` must be one microbatch of the model's input, because it determines the tensors'
/// shapes.
std::vector<StageDefinition> split(const Model& model, const Cut& cut, const SplitOptions& options,
                                   const at::Tensor& input = {});

}  // namespace penstock::nn
