#pragma once
// Cuts the layers of each stage into contiguous gradient buckets. Each stage is balanced like a separate
// model:
//
//   layers  4 4 2 2 1 | 6 6      buckets [2, 1]      4 4 | 2 2 1 | 6 6

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/model/model.hpp"

namespace penstock {

/// Returns the ends of all buckets. The stages end at layers `ends`, and each is cut into its number of
/// `buckets`, which are as even in time as its layers allow. Error: a stage has fewer layers than buckets.
/// Requires ascending ends whose last is the number of layers, and for each stage a number of at least 1.
tl::expected<std::vector<std::int32_t>, std::string> cut_buckets(const LayerGraph& graph,
                                                                 const std::vector<std::int32_t>& ends,
                                                                 const std::vector<std::int32_t>& buckets);

}  // namespace penstock
