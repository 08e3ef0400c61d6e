// Cuts a model into stages. A model is a list of pieces in an order in which they can run. A stage is a set
// of pieces, so several tensors may cross a cut, for example with residual connections:
//
//     piece 0 -> 1 -> 2 -> 3 (reads 2 and 0)
//     cut         |              the outputs of 1 and 0 cross it, flattened and concatenated
//
// The weights of a piece depend only on the seed and the piece's index in the model, so the cut does not
// change the results.

#include "backend/torch/models.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include "backend/torch/layer.hpp"
#include "backend/torch/layers.hpp"
#include "backend/torch/loss.hpp"
#include "backend/torch/stage_graph.hpp"
#include "backend/torch/torch_stage.hpp"
#include "schedules/ir/mixed_bits.hpp"

namespace penstock::nn {
namespace {

Tensors initial_weights(const Model& model, std::int32_t piece, const SplitOptions& options) {
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(
      mixed(options.seed ^ mixed(static_cast<std::uint64_t>(piece))));
  Tensors weights = model.pieces[static_cast<std::size_t>(piece)].layer->initial_weights(generator);
  for (at::Tensor& weight : weights) weight = weight.to(options.device, options.type);
  return weights;
}

}  // namespace

void Model::append(std::string name, LayerPointer layer) {
  const auto before = static_cast<std::int32_t>(pieces.size()) - 1;
  pieces.push_back({.name = std::move(name),
                    .layer = std::move(layer),
                    .inputs = before < 0 ? std::vector<std::int32_t>{} : std::vector<std::int32_t>{before}});
}

Model transformer(const TransformerShape& shape) {
  Model model{.pieces = {}, .loss = Loss::cross_entropy};
  model.append("Embedding", embedding(shape.tokens, shape.positions, shape.width));
  for (std::int64_t i = 0; i < shape.blocks; ++i) {
    model.append("TransformerBlock", transformer_block({.width = shape.width,
                                                        .heads = shape.heads,
                                                        .hidden = 4 * shape.width,
                                                        .dropout = shape.dropout,
                                                        .number = static_cast<std::uint64_t>(i)}));
  }
  model.append("Head", sequential({layer_norm(shape.width), linear(shape.width, shape.tokens)}));
  return model;
}

/// The first stages get one piece more than the others if the number of pieces is not a multiple of the
/// number of stages.
Cut even_cut(const Model& model, std::int32_t stages) {
  Cut cut(static_cast<std::size_t>(stages));
  const auto count = static_cast<std::int32_t>(model.pieces.size());
  std::int32_t piece = 0;
  for (std::int32_t stage = 0; stage < stages; ++stage) {
    const std::int32_t end = piece + count / stages + (stage < count % stages ? 1 : 0);
    for (; piece < end; ++piece) cut[static_cast<std::size_t>(stage)].push_back(piece);
  }
  return cut;
}

std::vector<StageDefinition> split(const Model& model, const Cut& cut, const SplitOptions& options,
                                   const at::Tensor& input) {
  const std::vector<LayerPointer> layers = stage_graphs(model, cut, input);
  std::vector<StageDefinition> definitions;
  definitions.reserve(cut.size());
  for (std::size_t stage = 0; stage < cut.size(); ++stage) {
    StageDefinition definition{.layer = layers[stage], .weights = {}, .join = Join::sum, .loss = model.loss};
    std::vector<std::int32_t> pieces = cut[stage];
    std::ranges::sort(pieces);
    // Each piece has its own seed, so the weights of one stage can be omitted without changing other weights.
    if (!options.drawn.empty() && !options.drawn[stage]) pieces.clear();
    for (const std::int32_t piece : pieces)
      std::ranges::move(initial_weights(model, piece, options), std::back_inserter(definition.weights));
    definitions.push_back(std::move(definition));
  }
  return definitions;
}

}  // namespace penstock::nn
