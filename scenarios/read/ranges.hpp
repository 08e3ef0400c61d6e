#pragma once

#include "text/numbers.hpp"

namespace penstock {

// Limits of integers that several parts of the schema ask for; they keep products of sizes within 128 bits.

/// A size of a model: a width, heads, a sequence, a vocabulary.
inline constexpr Range kModelSize{.least = 1, .most = 1 << 24};
/// Layers, experts, blocks.
inline constexpr Range kModelCount{.least = 1, .most = 1 << 16};
/// How many devices share a layer, each in one way.
inline constexpr Range kParallelDegree{.least = 1, .most = 1 << 20};

}  // namespace penstock
