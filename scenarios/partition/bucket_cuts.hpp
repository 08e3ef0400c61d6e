#pragma once
// How the layers of a stage become the buckets in which its gradients are reduced: contiguous runs of them.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/model/model.hpp"

namespace penstock {

/// The stages that end at layers `ends`, each cut into as many buckets as `buckets` has for it, which are as
/// even in time as its layers allow: the ends of all buckets. Error: a stage of fewer layers than buckets.
/// Requires ascending ends, the last the number of layers, and for each stage one number of at least 1.
tl::expected<std::vector<std::int32_t>, std::string> cut_buckets(const LayerGraph& graph,
                                                                 const std::vector<std::int32_t>& ends,
                                                                 const std::vector<std::int32_t>& buckets);

}  // namespace penstock
