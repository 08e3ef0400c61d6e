// Layers without weights (GELU, dropout, causal attention, mean). I is their whole backward pass, and W does
// nothing. The comment of each class states its derivative. F stores its random mask, so that the backward
// pass uses the same one. Tests: tests/backend_torch/layers_test.cpp.

#include <cmath>
#include <cstdint>
#include <memory>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>

#include "backend/torch/layer.hpp"
#include "backend/torch/layers.hpp"
#include "schedules/ir/mixed_bits.hpp"

namespace penstock::nn {
namespace {

/// The GELU, y = x Phi(x). Its gradient is dx = g (Phi(x) + x phi(x)). ATen has kernels for both.
class Gelu : public Layer {
 public:
  Output forward(Weights, const at::Tensor& input, std::uint64_t) const override {
    return {at::gelu(input), {.tensors = {input}, .parts = {}, .graph = {}}};
  }
  Output backward_input(Weights, const at::Tensor& gradient, Record forward) const override {
    return {at::gelu_backward(gradient, forward.tensors[0]), {}};
  }
};

/// A dropout, y = x m. The mask m has the values 0 and 1 / (1 - p), so that the mean stays the same. The
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
  /// Draws a mask of the values 0 and 1 / (1 - p) on the CPU, and returns it on the device of `like`.
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

}  // namespace penstock::nn
