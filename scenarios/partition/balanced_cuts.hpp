#pragma once
// Cuts of a model's layers into contiguous parts whose longest is as short as possible. partition.cpp uses it
// for stages and bucket_cuts.cpp for the buckets of a stage.

#include <cstdint>
#include <vector>

#include "scenarios/model/model.hpp"

namespace penstock {

/// Returns cuts whose longest stage (forward + backward) is as short as any contiguous partition allows.
/// Among these it takes the most equal ones, with the least sum of squared times. Among these it takes those
/// whose fullest stage needs least memory under 1F1B: stage s of K holds its weights, their gradients and
/// what K - s microbatches hold. The earliest cuts win a tie. Requires 1 <= stages <= layers.
std::vector<std::int32_t> balanced_cuts(const LayerGraph& graph, std::int32_t stages);

/// Returns cuts whose longest part is as short as possible, and among these the earliest ones: each part,
/// from the last to the first, takes as many layers as possible while one is left for each earlier part. For
/// gradient buckets, whose first one is ready last and should be small. Requires 1 <= parts <= layers.
std::vector<std::int32_t> earliest_cuts(const LayerGraph& graph, std::int32_t parts);

}  // namespace penstock
