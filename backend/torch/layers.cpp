// Layers with weights. Let y = x W' + b and g = dL/dy. Then I computes dL/dx = g W, and W computes dL/dW = g'
// x and dL/db = sum g. The other layers call separate ATen kernels for I and W. Tests:
// tests/backend_torch/layers_test.cpp.

#include "backend/torch/layers.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/normal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>

#include "schedules/ir/digest.hpp"

namespace penstock::nn {

namespace {

/// Returns a tensor of random numbers that are uniformly distributed in [-bound, bound).
at::Tensor even(at::IntArrayRef sizes, double bound, const at::Generator& generator) {
  // The numbers are always drawn in double precision, so that every training type starts with the same
  // weights.
  return at::rand(sizes, generator, at::kDouble).mul(2 * bound).sub(bound);
}

/// Returns x as a matrix: all dimensions except the last are merged into one.
at::Tensor rows(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

/// A linear layer. The forward pass stores the input x, and the action I (gradient of the input) also stores
/// g, the gradient of the output. The action W (gradient of the weights) needs only these two and no weights.
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

/// A layer normalization. One ATen kernel can compute the gradients of both the input (I) and the weights
/// (W). A mask argument selects which of them it computes.
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

/// An embedding, y = tokens[x] + positions[0 ..]. x has no gradient. Let g be the gradient of y. The gradient
/// of a token's row is the sum of g over all positions with this token.
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

/// A convolution. One ATen kernel computes the gradients of the input (I) and of the weights (W). A mask
/// argument selects which of them it computes.
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

// Layers without weights (GELU, dropout, causal attention, mean). Their whole backward pass is I (gradient of
// the input), and W (gradient of the weights) does nothing. The comment of each class states its derivative.
// F stores its random mask, so that the backward pass uses the same mask. Tests:
// tests/backend_torch/layers_test.cpp.

namespace {

/// The activation function GELU, y = x Phi(x). Its gradient is dx = g (Phi(x) + x phi(x)), where g is the
/// gradient of y. ATen has kernels for both.
class Gelu : public Layer {
 public:
  Output forward(Weights, const at::Tensor& input, std::uint64_t) const override {
    return {at::gelu(input), {.tensors = {input}, .parts = {}, .graph = {}}};
  }
  Output backward_input(Weights, const at::Tensor& gradient, Record forward) const override {
    return {at::gelu_backward(gradient, forward.tensors[0]), {}};
  }
};

/// A dropout, y = x m. The mask m has the values 0 and 1 / (1 - p), so that the mean of y is that of x. The
/// gradient is dx = g m.
class Dropout : public Layer {
 public:
  Dropout(double probability, std::uint64_t stream) : probability_(probability), stream_(stream) {}

  Output forward(Weights, const at::Tensor& input, std::uint64_t seed) const override {
    if (probability_ == 0) return {input, {}};
    const at::Tensor factors = mask(input, mixed(seed ^ mixed(stream_)));
    return {input.mul(factors), {.tensors = {factors}, .parts = {}, .graph = {}}};
  }
  Output backward_input(Weights, const at::Tensor& gradient, Record forward) const override {
    if (probability_ == 0) return {gradient, {}};
    return {gradient.mul(forward.tensors[0]), {}};
  }

 private:
  /// Draws a dropout mask at random on the CPU, and returns it on the device of `like`. Its values are 0
  /// and 1 / (1 - p).
  at::Tensor mask(const at::Tensor& like, std::uint64_t seed) const {
    // The CPU's generator is used for all devices, so that they drop the same values.
    const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    const at::Tensor drawn = at::rand(like.sizes(), generator, at::kDouble);
    return drawn.ge(probability_).to(like.options()).div(1 - probability_);
  }

  double probability_;
  std::uint64_t stream_;
};

/// Causal attention. g is the gradient of the output y:
///
///   S = Q K' / sqrt(d)      P = softmax(S)                   y = P V
///   dP = g V'               dS = P (dP - rowsum(P dP))       dV = P' g
///   dQ = dS K / sqrt(d)     dK = dS' Q / sqrt(d)
class CausalAttention : public Layer {
 public:
  explicit CausalAttention(std::int64_t heads) : heads_(heads) {}

  Output forward(Weights, const at::Tensor& input, std::uint64_t) const override {
    const at::Tensor heads = split(input, 3);
    const at::Tensor queries = heads[0];
    const at::Tensor keys = heads[1];
    const at::Tensor values = heads[2];
    const at::Tensor scores = at::matmul(queries, keys.transpose(-2, -1)).mul(scale(queries));
    const at::Tensor later =
        at::ones({input.size(1), input.size(1)}, input.options().dtype(at::kBool)).triu(1);
    const at::Tensor shares = at::_softmax(scores.masked_fill(later, -INFINITY), -1, false);
    return {joined(at::matmul(shares, values)),
            {.tensors = {queries, keys, values, shares}, .parts = {}, .graph = {}}};
  }

  Output backward_input(Weights, const at::Tensor& gradient, Record forward) const override {
    const Tensors& kept = forward.tensors;
    const at::Tensor& shares = kept[3];
    const at::Tensor of_output = split(gradient, 1)[0];
    const at::Tensor of_shares = at::matmul(of_output, kept[2].transpose(-2, -1));
    const at::Tensor of_scores =
        at::_softmax_backward_data(of_shares, shares, -1, shares.scalar_type()).mul(scale(kept[0]));
    const at::Tensor of_queries = at::matmul(of_scores, kept[1]);
    const at::Tensor of_keys = at::matmul(of_scores.transpose(-2, -1), kept[0]);
    const at::Tensor of_values = at::matmul(shares.transpose(-2, -1), of_output);
    return {at::cat({joined(of_queries), joined(of_keys), joined(of_values)}, -1), {}};
  }

 private:
  static double scale(const at::Tensor& queries) {
    return 1 / std::sqrt(static_cast<double>(queries.size(-1)));
  }
  /// Reshapes x from [B, T, parts x heads x d] to [parts, B, heads, T, d].
  at::Tensor split(const at::Tensor& x, std::int64_t parts) const {
    return x.reshape({x.size(0), x.size(1), parts, heads_, -1}).permute({2, 0, 3, 1, 4});
  }
  /// Reshapes x from [B, heads, T, d] to [B, T, heads x d].
  static at::Tensor joined(const at::Tensor& x) {
    return x.transpose(1, 2).reshape({x.size(0), x.size(2), -1});
  }

  std::int64_t heads_;
};

/// The mean y of the n pixels of an image. The gradient of each pixel is dx = g / n.
class MeanPool : public Layer {
 public:
  Output forward(Weights, const at::Tensor& input, std::uint64_t) const override {
    return {input.mean({2, 3}), {.tensors = {input}, .parts = {}, .graph = {}}};
  }
  Output backward_input(Weights, const at::Tensor& gradient, Record forward) const override {
    const at::Tensor& image = forward.tensors[0];
    const auto pixels = static_cast<double>(image.size(2) * image.size(3));
    return {gradient.div(pixels).unsqueeze(-1).unsqueeze(-1).expand(image.sizes()).contiguous(), {}};
  }
};

}  // namespace

LayerPointer gelu() { return std::make_shared<Gelu>(); }

LayerPointer dropout(double probability, std::uint64_t stream) {
  return std::make_shared<Dropout>(probability, stream);
}

LayerPointer causal_attention(std::int64_t heads) { return std::make_shared<CausalAttention>(heads); }

LayerPointer mean_pool() { return std::make_shared<MeanPool>(); }

// Computes losses and their gradients. The mean squared error of n elements has the gradient dL/dy = 2 (y -
// t) / n. The cross entropy of n rows has the gradient dL/dy = (softmax(y) - onehot(t)) / n.

namespace {

LossValue mean_squared_error(const at::Tensor& prediction, const at::Tensor& target) {
  const at::Tensor difference = prediction.sub(target);
  return {difference.square().mean(), difference.mul(2 / static_cast<double>(difference.numel()))};
}

/// Returns the cross entropy and its gradient, from the logarithm of the softmax. ATen's function subtracts
/// the largest value first, because exp() of a large value overflows.
LossValue cross_entropy(const at::Tensor& prediction, const at::Tensor& target) {
  const at::Tensor logarithms = at::_log_softmax(prediction, -1, false);
  const at::Tensor classes = target.unsqueeze(-1);
  const at::Tensor of_target = logarithms.gather(-1, classes);
  const double share = 1 / static_cast<double>(target.numel());
  const at::Tensor gradient = logarithms.exp().scatter_add(-1, classes, at::full_like(of_target, -1));
  return {of_target.mean().neg(), gradient.mul(share)};
}

}  // namespace

LossValue loss_of(Loss loss, const at::Tensor& prediction, const at::Tensor& target) {
  switch (loss) {
    case Loss::mean_squared_error:
      return mean_squared_error(prediction, target);
    case Loss::cross_entropy:
      break;
  }
  return cross_entropy(prediction, target);
}

}  // namespace penstock::nn
