#pragma once
// torchgpipe's way to balance stages: blocks of consecutive layers whose times differ by at most the spread
// of a layer's. Asked for by `partition: block`; balanced_cuts.hpp has the least maximum.

#include <cstdint>
#include <vector>

#include "scenarios/model/model.hpp"

namespace penstock {

/// The cuts of a block partition by forward + backward time. As torchgpipe does it (torchgpipe.balance), the
/// least time of a layer is taken from each first; of what is left, no two blocks differ by more than the
/// largest layer. Requires 1 <= stages <= layers.
std::vector<std::int32_t> block_cuts(const LayerGraph& graph, std::int32_t stages);

}  // namespace penstock
