#include "tests/backend_torch/unsplit_transformer.hpp"

#include <cstddef>
#include <cstdint>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

namespace penstock::nn {
namespace {

/// Hands out weights in the order of the model.
class WeightReader {
 public:
  explicit WeightReader(const Tensors& weights) : weights_(weights) {}
  const at::Tensor& next() { return weights_.at(next_++); }
  bool at_end() const { return next_ == weights_.size(); }

 private:
  const Tensors& weights_;
  std::size_t next_ = 0;
};

at::Tensor affine(const at::Tensor& x, WeightReader& weights) {
  const at::Tensor& matrix = weights.next();
  return at::matmul(x, matrix.t()) + weights.next();
}

at::Tensor normalized(const at::Tensor& x, WeightReader& weights) {
  const at::Tensor& scale = weights.next();
  return at::layer_norm(x, {x.size(-1)}, scale, weights.next());
}

at::Tensor attention(const at::Tensor& x, std::int64_t heads) {
  const at::Tensor parts = x.view({x.size(0), x.size(1), 3, heads, -1}).permute({2, 0, 3, 1, 4});
  return at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0, /*is_causal=*/true)
      .transpose(1, 2)
      .reshape({x.size(0), x.size(1), -1});
}

at::Tensor drawn(const TransformerShape& shape, std::uint64_t seed) {
  return at::randint(0, shape.tokens, {2, shape.positions}, at::make_generator<at::CPUGeneratorImpl>(seed),
                     at::kLong);
}

}  // namespace

at::Tensor unsplit_loss(const TransformerShape& shape, const Tensors& weights, std::int32_t microbatch) {
  WeightReader next(weights);
  const at::Tensor tokens = tokens_of(shape, microbatch);
  const at::Tensor of_tokens = next.next().index_select(0, tokens.flatten()).view({2, shape.positions, -1});
  at::Tensor x = of_tokens + next.next();
  for (std::int64_t block = 0; block < shape.blocks; ++block) {
    const at::Tensor looked = attention(affine(normalized(x, next), next), shape.heads);
    x = x + affine(looked, next);
    const at::Tensor hidden = at::gelu(affine(normalized(x, next), next));
    x = x + affine(hidden, next);
  }
  const at::Tensor scores = affine(normalized(x, next), next);
  TORCH_CHECK(next.at_end(), "weights are left over");
  return at::cross_entropy_loss(scores.flatten(0, 1), targets_of(shape, microbatch).flatten());
}

at::Tensor tokens_of(const TransformerShape& shape, std::int32_t microbatch) {
  return drawn(shape, 2 * static_cast<std::uint64_t>(microbatch));
}

at::Tensor targets_of(const TransformerShape& shape, std::int32_t microbatch) {
  return drawn(shape, 2 * static_cast<std::uint64_t>(microbatch) + 1);
}

}  // namespace penstock::nn
