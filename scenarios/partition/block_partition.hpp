#pragma once
// Balances stages as torchgpipe does: the times of two blocks of consecutive layers differ by no more than
// the times of the layers differ. Used for `partition: block`. In contrast, balanced_cuts.hpp minimises the
// longest stage.

#include <cstdint>
#include <vector>

#include "scenarios/model/model.hpp"

namespace penstock {

/// Returns the cuts of a block partition by forward + backward time. As in torchgpipe.balance, the least time
/// of a layer is first subtracted from the time of each layer. Then no two blocks differ by more than the
/// largest remaining time. Requires 1 <= stages <= layers.
std::vector<std::int32_t> block_cuts(const LayerGraph& graph, std::int32_t stages);

}  // namespace penstock
