#pragma once
// Comparing tensors in tests.

#include <string>

#include <gtest/gtest.h>

#include "backend/torch/layer.hpp"

namespace penstock::nn {

/// 1e-9 of the larger of 1 and the largest expected magnitude: what two orders of summation in double may
/// differ by, and no formula.
testing::AssertionResult near(const at::Tensor& actual, const at::Tensor& expected);
/// Each of them, and as many.
testing::AssertionResult near(const Tensors& actual, const Tensors& expected);

/// Bit by bit.
bool same(const Tensors& actual, const Tensors& expected);

}  // namespace penstock::nn
