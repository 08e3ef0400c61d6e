#pragma once
// Cuts the layers of each stage into contiguous gradient buckets. Each stage is balanced as if it were a
// separate model:
//
//   layers  4 4 2 2 1 | 6 6      buckets [2, 1]      4 4 | 2 2 1 | 6 6

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/model/model.hpp"

namespace penstock {

/// Returns the ends of all buckets. `ends` has the number of layers up to the end of each stage, and
/// `buckets` the number of buckets of each stage. Buckets are as even in time as the layers allow. Error: a
/// stage has fewer layers than buckets. Requires ascending ends, of which the last is the number of layers,
/// and at least one bucket for each stage.
tl::expected<std::vector<std::int32_t>, std::string> cut_buckets(const LayerGraph& graph,
                                                                 const std::vector<std::int32_t>& ends,
                                                                 const std::vector<std::int32_t>& buckets);

}  // namespace penstock
