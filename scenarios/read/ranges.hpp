#pragma once

#include "text/numbers.hpp"

namespace penstock {

// Limits of integers in several parts of the schema. With them, products of sizes fit in 128 bits.

/// The range of a model size, such as a width, heads, a sequence or a vocabulary.
inline constexpr Range kModelSize{.least = 1, .most = 1 << 24};
/// The range of a number of layers, experts or blocks.
inline constexpr Range kModelCount{.least = 1, .most = 1 << 16};
/// The range of one degree of parallelism, which is the number of devices that share a layer.
inline constexpr Range kParallelDegree{.least = 1, .most = 1 << 20};

}  // namespace penstock
