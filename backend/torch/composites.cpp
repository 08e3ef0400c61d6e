// Layers that consist of other layers: y = f_n(... f_1(x)). The actions I (gradient of the input) and B
// (full backward) apply the chain rule from the last layer to the first. Each part has its own range of
// the weights and its own Record. Tests: tests/backend_torch/layers_test.cpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include "backend/torch/layers.hpp"

namespace penstock::nn {

namespace {

void add_storages(const Record& record, std::map<const void*, std::int64_t>& sizes) {
  for (const at::Tensor& tensor : record.tensors) {
    // Several tensors may be views of the same storage, so the map counts each storage once.
    if (tensor.defined() && tensor.has_storage())
      sizes[tensor.storage().unsafeGetStorageImpl()] = static_cast<std::int64_t>(tensor.storage().nbytes());
  }
  for (const Record& part : record.parts) add_storages(part, sizes);
}

}  // namespace

std::int64_t storage_bytes(const Record& record, Tensors others) {
  std::map<const void*, std::int64_t> sizes;
  add_storages(record, sizes);
  add_storages({.tensors = std::move(others)}, sizes);
  std::int64_t sum = 0;
  for (const auto& [storage, bytes] : sizes) sum += bytes;
  return sum;
}

Gradients Layer::backward(Weights weights, const at::Tensor& gradient, Record forward) const {
  auto [of_input, record] = backward_input(weights, gradient, std::move(forward));
  return {std::move(of_input), backward_weight(weights, record)};
}

namespace {

/// A sequence of layers. Layer i has the weights from first_weight_[i] up to first_weight_[i + 1]. Its record
/// for the backward pass is entry i of the `parts` of the sequence's record.
class Sequential : public Layer {
 public:
  explicit Sequential(std::vector<LayerPointer> layers) : layers_(std::move(layers)) {
    for (const LayerPointer& layer : layers_) {
      first_weight_.push_back(weight_count_);
      weight_count_ += layer->weight_count();
    }
  }

  std::size_t weight_count() const override { return weight_count_; }

  Tensors initial_weights(at::Generator& generator) const override {
    Tensors all;
    for (const LayerPointer& layer : layers_)
      std::ranges::move(layer->initial_weights(generator), std::back_inserter(all));
    return all;
  }

  Output forward(Weights weights, const at::Tensor& input, std::uint64_t seed) const override {
    Output output{input, {}};
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      auto [value, record] = layers_[i]->forward(of_part(weights, i), output.value, seed);
      output.value = std::move(value);
      output.record.parts.push_back(std::move(record));
    }
    return output;
  }

  Output backward_input(Weights weights, const at::Tensor& gradient, Record forward) const override {
    Output output{gradient, std::move(forward)};
    for (std::size_t i = layers_.size(); i-- > 0;) {
      Record& part = output.record.parts[i];
      auto [value, record] = layers_[i]->backward_input(of_part(weights, i), output.value, std::move(part));
      output.value = std::move(value);
      part = std::move(record);
    }
    return output;
  }

  Tensors backward_weight(Weights weights, const Record& record) const override {
    Tensors all;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      std::ranges::move(layers_[i]->backward_weight(of_part(weights, i), record.parts[i]),
                        std::back_inserter(all));
    }
    return all;
  }

  /// Computes both gradients (I and W) of one layer before those of the next layer, so that the layer's
  /// record is freed early. If I of all layers ran first, all records would exist until the last W.
  Gradients backward(Weights weights, const at::Tensor& gradient, Record forward) const override {
    Gradients all{gradient, Tensors(weight_count_)};
    for (std::size_t i = layers_.size(); i-- > 0;) {
      auto [of_input, of_weights] =
          layers_[i]->backward(of_part(weights, i), all.input, std::move(forward.parts[i]));
      all.input = std::move(of_input);
      std::ranges::move(of_weights, all.weights.begin() + static_cast<std::ptrdiff_t>(first_weight_[i]));
    }
    return all;
  }

 private:
  Weights of_part(Weights weights, std::size_t i) const {
    return weights.subspan(first_weight_[i], layers_[i]->weight_count());
  }

  std::vector<LayerPointer> layers_;
  std::vector<std::size_t> first_weight_;
  std::size_t weight_count_ = 0;
};

/// A residual layer: y = x + f(x), so dx = g + df(g), where g is the gradient of y. The addition of x has
/// no weights and stores nothing.
class Residual : public Layer {
 public:
  explicit Residual(LayerPointer layer) : layer_(std::move(layer)) {}

  std::size_t weight_count() const override { return layer_->weight_count(); }
  Tensors initial_weights(at::Generator& generator) const override {
    return layer_->initial_weights(generator);
  }

  Output forward(Weights weights, const at::Tensor& input, std::uint64_t seed) const override {
    Output output = layer_->forward(weights, input, seed);
    output.value = input.add(output.value);
    return output;
  }
  Output backward_input(Weights weights, const at::Tensor& gradient, Record forward) const override {
    Output output = layer_->backward_input(weights, gradient, std::move(forward));
    output.value = gradient.add(output.value);
    return output;
  }
  Tensors backward_weight(Weights weights, const Record& record) const override {
    return layer_->backward_weight(weights, record);
  }

  Gradients backward(Weights weights, const at::Tensor& gradient, Record forward) const override {
    Gradients all = layer_->backward(weights, gradient, std::move(forward));
    // The gradient of the added x is the output's gradient, unchanged.
    all.input = gradient.add(all.input);
    return all;
  }

 private:
  LayerPointer layer_;
};

}  // namespace

LayerPointer sequential(std::vector<LayerPointer> layers) {
  return std::make_shared<Sequential>(std::move(layers));
}

LayerPointer residual(LayerPointer layer) { return std::make_shared<Residual>(std::move(layer)); }

LayerPointer mlp(const MlpShape& shape) {
  return sequential({linear(shape.width, shape.hidden), gelu(), linear(shape.hidden, shape.outputs)});
}

LayerPointer transformer_block(const BlockShape& shape) {
  LayerPointer attention = residual(sequential(
      {layer_norm(shape.width), linear(shape.width, 3 * shape.width), causal_attention(shape.heads),
       linear(shape.width, shape.width), dropout(shape.dropout, 2 * shape.number)}));
  LayerPointer feed_forward = residual(sequential(
      {layer_norm(shape.width), mlp({.width = shape.width, .hidden = shape.hidden, .outputs = shape.width}),
       dropout(shape.dropout, 2 * shape.number + 1)}));
  return sequential({std::move(attention), std::move(feed_forward)});
}

LayerPointer conv_net(const ConvNetShape& shape) {
  return sequential({convolution({.inputs = shape.channels, .outputs = shape.hidden}), gelu(),
                     convolution({.inputs = shape.hidden, .outputs = shape.hidden, .stride = 2}), gelu(),
                     mean_pool(), linear(shape.hidden, shape.outputs)});
}

}  // namespace penstock::nn
