#include "backend/torch/models.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

#include "backend/mixed_bits.hpp"
#include "backend/torch/layer.hpp"
#include "backend/torch/layers.hpp"
#include "backend/torch/loss.hpp"
#include "backend/torch/torch_stage.hpp"

namespace penstock::nn {

Model transformer(const TransformerShape& shape) {
  Model model{.pieces = {embedding(shape.tokens, shape.positions, shape.width)}, .loss = Loss::cross_entropy};
  for (std::int64_t i = 0; i < shape.blocks; ++i) {
    model.pieces.push_back(transformer_block({.width = shape.width,
                                              .heads = shape.heads,
                                              .hidden = 4 * shape.width,
                                              .dropout = shape.dropout,
                                              .number = static_cast<std::uint64_t>(i)}));
  }
  model.pieces.push_back(sequential({layer_norm(shape.width), linear(shape.width, shape.tokens)}));
  return model;
}

std::vector<StageDefinition> split(const Model& model, std::int32_t stages, const SplitOptions& options) {
  std::vector<StageDefinition> definitions;
  const auto count = static_cast<std::int32_t>(model.pieces.size());
  std::int32_t begin = 0;
  for (std::int32_t stage = 0; stage < stages; ++stage) {
    const std::int32_t end = begin + count / stages + (stage < count % stages ? 1 : 0);
    StageDefinition definition{.layer = {}, .weights = {}, .join = Join::sum, .loss = model.loss};
    std::vector<LayerPointer> pieces;
    for (std::int32_t piece = begin; piece < end; ++piece) {
      pieces.push_back(model.pieces[static_cast<std::size_t>(piece)]);
      at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(
          mixed(options.seed ^ mixed(static_cast<std::uint64_t>(piece))));
      for (const at::Tensor& weight : pieces.back()->initial_weights(generator)) {
        definition.weights.push_back(weight.to(options.device, options.type));
      }
    }
    definition.layer = sequential(std::move(pieces));
    definitions.push_back(std::move(definition));
    begin = end;
  }
  return definitions;
}

}  // namespace penstock::nn
