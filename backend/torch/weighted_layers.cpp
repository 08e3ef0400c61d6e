// Layers with weights. Let y = x W' + b and g = dL/dy. I computes dL/dx = g W. W computes dL/dW = g' x and
// dL/db = sum g. The other layers call ATen's kernels separately for I and W. Tests:
// tests/backend_torch/layers_test.cpp.

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/normal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>

#include "backend/torch/layer.hpp"
#include "backend/torch/layers.hpp"

namespace penstock::nn {
namespace {

/// Returns uniformly distributed random numbers in [-bound, bound).
at::Tensor even(at::IntArrayRef sizes, double bound, const at::Generator& generator) {
  // The numbers are always drawn in double precision, so that every training type starts with the same
  // weights.
  return at::rand(sizes, generator, at::kDouble).mul(2 * bound).sub(bound);
}

/// Returns x with all dimensions except the last merged into one.
at::Tensor rows(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

/// A linear layer. F stores x, and I stores g in addition. W needs only these two and no weights.
class Linear : public Layer {
 public:
  Linear(std::int64_t inputs, std::int64_t outputs) : inputs_(inputs), outputs_(outputs) {}

  std::size_t weight_count() const override { return 2; }

  Tensors initial_weights(at::Generator& generator) const override {
    const double bound = 1 / std::sqrt(static_cast<double>(inputs_));
    at::Tensor matrix = even({outputs_, inputs_}, bound, generator);
    return {std::move(matrix), even({outputs_}, bound, generator)};
  }

  Output forward(Weights weights, const at::Tensor& input, std::uint64_t) const override {
    return {at::linear(input, weights[0], weights[1]), {.tensors = {input}, .parts = {}, .graph = {}}};
  }

  Output backward_input(Weights weights, const at::Tensor& gradient, Record forward) const override {
    forward.tensors.push_back(gradient);
    return {at::matmul(gradient, weights[0]), std::move(forward)};
  }

  Tensors backward_weight(Weights, const Record& record) const override {
    const at::Tensor gradient = rows(record.tensors[1]);
    return {gradient.t().mm(rows(record.tensors[0])), gradient.sum(0)};
  }

 private:
  std::int64_t inputs_;
  std::int64_t outputs_;
};

/// A layer normalization. One ATen kernel can compute both I and W. A mask argument selects which one.
class LayerNorm : public Layer {
 public:
  explicit LayerNorm(std::int64_t width) : width_(width) {}

  std::size_t weight_count() const override { return 2; }

  Tensors initial_weights(at::Generator&) const override {
    return {at::ones({width_}, at::kDouble), at::zeros({width_}, at::kDouble)};
  }

  Output forward(Weights weights, const at::Tensor& input, std::uint64_t) const override {
    constexpr double kEpsilon = 1e-5;
    auto [value, mean, deviation] = at::native_layer_norm(input, {width_}, weights[0], weights[1], kEpsilon);
    return {value, {.tensors = {input, mean, deviation}, .parts = {}, .graph = {}}};
  }

  Output backward_input(Weights weights, const at::Tensor& gradient, Record forward) const override {
    at::Tensor of_input = std::get<0>(halves(weights, gradient, forward.tensors, {true, false, false}));
    forward.tensors.push_back(gradient);
    return {std::move(of_input), std::move(forward)};
  }

  Tensors backward_weight(Weights weights, const Record& record) const override {
    const at::Tensor& gradient = record.tensors[3];
    auto [none, scale, shift] = halves(weights, gradient, record.tensors, {false, true, true});
    return {scale, shift};
  }

 private:
  std::tuple<at::Tensor, at::Tensor, at::Tensor> halves(Weights weights, const at::Tensor& gradient,
                                                        const Tensors& kept,
                                                        std::array<bool, 3> wanted) const {
    return at::native_layer_norm_backward(gradient, kept[0], {width_}, kept[1], kept[2], weights[0],
                                          weights[1], wanted);
  }

  std::int64_t width_;
};

/// An embedding, y = tokens[x] + positions[0 ..]. x has no gradient. The gradient of a token's row is the sum
/// of g over all positions with this token.
class Embedding : public Layer {
 public:
  Embedding(std::int64_t tokens, std::int64_t positions, std::int64_t width)
      : tokens_(tokens), positions_(positions), width_(width) {}

  std::size_t weight_count() const override { return 2; }

  Tensors initial_weights(at::Generator& generator) const override {
    at::Tensor of_tokens = at::normal(0, 1, {tokens_, width_}, generator, at::kDouble);
    return {std::move(of_tokens), at::normal(0, 1, {positions_, width_}, generator, at::kDouble)};
  }

  Output forward(Weights weights, const at::Tensor& input, std::uint64_t) const override {
    at::Tensor value = at::embedding(weights[0], input).add(weights[1].narrow(0, 0, input.size(-1)));
    return {std::move(value), {.tensors = {input}, .parts = {}, .graph = {}}};
  }

  Output backward_input(Weights, const at::Tensor& gradient, Record forward) const override {
    forward.tensors.push_back(gradient);
    return {at::Tensor(), std::move(forward)};
  }

  Tensors backward_weight(Weights, const Record& record) const override {
    const at::Tensor& input = record.tensors[0];
    const at::Tensor& gradient = record.tensors[1];
    constexpr std::int64_t kNoPadding = -1;
    at::Tensor of_positions = at::zeros({positions_, width_}, gradient.options());
    // If a sequence is shorter than the table of positions, the remaining rows have gradient 0.
    of_positions.narrow(0, 0, input.size(-1)).copy_(gradient.sum(0));
    return {at::embedding_dense_backward(gradient, input, tokens_, kNoPadding, false),
            std::move(of_positions)};
  }

 private:
  std::int64_t tokens_;
  std::int64_t positions_;
  std::int64_t width_;
};

/// A convolution. As in LayerNorm, a mask argument of one ATen kernel selects I or W.
class Convolution : public Layer {
 public:
  explicit Convolution(const ConvolutionShape& shape) : shape_(shape) {}

  std::size_t weight_count() const override { return 2; }

  Tensors initial_weights(at::Generator& generator) const override {
    const double fan_in = static_cast<double>(shape_.inputs * shape_.kernel * shape_.kernel);
    const double bound = 1 / std::sqrt(fan_in);
    at::Tensor filters =
        even({shape_.outputs, shape_.inputs, shape_.kernel, shape_.kernel}, bound, generator);
    return {std::move(filters), even({shape_.outputs}, bound, generator)};
  }

  Output forward(Weights weights, const at::Tensor& input, std::uint64_t) const override {
    at::Tensor value = at::convolution(input, weights[0], weights[1], stride(), padding(), kDense,
                                       /*transposed=*/false, /*output_padding=*/kNone, /*groups=*/1);
    return {std::move(value), {.tensors = {input}, .parts = {}, .graph = {}}};
  }

  Output backward_input(Weights weights, const at::Tensor& gradient, Record forward) const override {
    at::Tensor of_input = std::get<0>(halves(weights, gradient, forward.tensors[0], {true, false, false}));
    forward.tensors.push_back(gradient);
    return {std::move(of_input), std::move(forward)};
  }

  Tensors backward_weight(Weights weights, const Record& record) const override {
    auto [none, filters, bias] = halves(weights, record.tensors[1], record.tensors[0], {false, true, true});
    return {filters, bias};
  }

 private:
  static constexpr std::array<std::int64_t, 2> kDense = {1, 1};
  static constexpr std::array<std::int64_t, 2> kNone = {0, 0};

  std::array<std::int64_t, 2> stride() const { return {shape_.stride, shape_.stride}; }
  std::array<std::int64_t, 2> padding() const { return {shape_.kernel / 2, shape_.kernel / 2}; }

  std::tuple<at::Tensor, at::Tensor, at::Tensor> halves(Weights weights, const at::Tensor& gradient,
                                                        const at::Tensor& input,
                                                        std::array<bool, 3> wanted) const {
    const std::array<std::int64_t, 1> bias_sizes = {shape_.outputs};
    return at::convolution_backward(gradient, input, weights[0], bias_sizes, stride(), padding(), kDense,
                                    /*transposed=*/false, /*output_padding=*/kNone, /*groups=*/1, wanted);
  }

  ConvolutionShape shape_;
};

}  // namespace

LayerPointer linear(std::int64_t inputs, std::int64_t outputs) {
  return std::make_shared<Linear>(inputs, outputs);
}

LayerPointer layer_norm(std::int64_t width) { return std::make_shared<LayerNorm>(width); }

LayerPointer embedding(std::int64_t tokens, std::int64_t positions, std::int64_t width) {
  return std::make_shared<Embedding>(tokens, positions, width);
}

LayerPointer convolution(const ConvolutionShape& shape) { return std::make_shared<Convolution>(shape); }

}  // namespace penstock::nn
