#include "tests/backend_torch/near.hpp"

#include <algorithm>
#include <cstddef>

#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>

namespace penstock::nn {

testing::AssertionResult near(const at::Tensor& actual, const at::Tensor& expected) {
  if (!actual.defined() || actual.sizes() != expected.sizes()) {
    return testing::AssertionFailure() << "the shape differs";
  }
  if (expected.numel() == 0) return testing::AssertionSuccess();
  const double distance = actual.detach().sub(expected.detach()).abs().max().item().toDouble();
  const double largest = expected.detach().abs().max().item().toDouble();
  if (distance <= 1e-9 * std::max(1.0, largest)) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "off by " << distance << ", the largest value is " << largest;
}

testing::AssertionResult near(const Tensors& actual, const Tensors& expected) {
  if (actual.size() != expected.size()) {
    return testing::AssertionFailure() << actual.size() << " tensors, expected " << expected.size();
  }
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (const auto result = near(actual[i], expected[i]); !result) {
      return testing::AssertionFailure() << "tensor " << i << ": " << result.message();
    }
  }
  return testing::AssertionSuccess();
}

bool same(const Tensors& actual, const Tensors& expected) {
  return std::ranges::equal(actual, expected,
                            [](const at::Tensor& a, const at::Tensor& b) { return at::equal(a, b); });
}

}  // namespace penstock::nn
