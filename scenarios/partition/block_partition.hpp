#pragma once
// torchgpipe's balancing of stages: blocks of consecutive layers whose times differ by no more than the
// layers' own differ. Used for `partition: block`; balanced_cuts.hpp minimises the longest stage.

#include <cstdint>
#include <vector>

#include "scenarios/model/model.hpp"

namespace penstock {

/// Returns the cuts of a block partition by forward + backward time. As in torchgpipe.balance, the least time
/// of a layer is first subtracted from each layer. In the remaining times no two blocks differ by more than
/// the largest layer. Requires 1 <= stages <= layers.
std::vector<std::int32_t> block_cuts(const LayerGraph& graph, std::int32_t stages);

}  // namespace penstock
