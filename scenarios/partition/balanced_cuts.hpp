#pragma once
// Cuts a model's layers into contiguous parts so that the longest part is as short as possible. partition.cpp
// uses it for stages and bucket_cuts.cpp for the buckets of a stage.

#include <cstdint>
#include <vector>

#include "scenarios/model/model.hpp"

namespace penstock {

/// Returns the cuts whose longest stage (forward + backward) is as short as possible. Among these it chooses
/// the cuts with the least sum of squared times. Among these it chooses the cuts whose fullest stage needs
/// the least memory under 1F1B. For stage s of K, the memory consists of weights, their gradients, and the
/// activations of K - s microbatches. On a tie it chooses the earliest cuts. Requires 1 <= stages <= layers.
std::vector<std::int32_t> balanced_cuts(const LayerGraph& graph, std::int32_t stages);

/// Returns the cuts whose longest part is as short as possible, and among these the earliest cuts. From the
/// last part to the first, each part takes as many layers as possible, but leaves one layer for each earlier
/// part. It is used for gradient buckets, because the first bucket is ready last and should be small.
/// Requires 1
/// <= parts <= layers.
std::vector<std::int32_t> earliest_cuts(const LayerGraph& graph, std::int32_t parts);

}  // namespace penstock
