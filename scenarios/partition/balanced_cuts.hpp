#pragma once
// Contiguous parts of a model's layers with the least maximum time. Used by partition.cpp for stages and by
// bucket_cuts.cpp for the buckets of one.

#include <cstdint>
#include <vector>

#include "scenarios/model/model.hpp"

namespace penstock {

/// Cuts whose largest stage (forward + backward) is as small as any contiguous partition has it. Of several
/// such the most equal ones, with the least sum of squared times. Of several such those whose fullest stage
/// needs least memory, as 1F1B fills it: stage s of K holds its weights, their gradients and what K - s
/// microbatches keep. Of several such the earliest. Requires 1 <= stages <= layers.
std::vector<std::int32_t> balanced_cuts(const LayerGraph& graph, std::int32_t stages);

/// Cuts whose largest part is as small as any has it; of several such, the one with the earliest cuts: each
/// part, from the last to the first, takes as many layers as that allows while one is left for each earlier
/// part. For gradient buckets, whose first ones, ready last, had better be small. Requires 1 <= parts <=
/// layers.
std::vector<std::int32_t> earliest_cuts(const LayerGraph& graph, std::int32_t parts);

}  // namespace penstock
