#pragma once
// A layer graph that branches too widely to be planned over layer by layer, with parallel branches merged.
// Used by prepare/merged_layers.cpp.

#include <cstdint>
#include <vector>

#include "scenarios/model/model.hpp"

namespace penstock {

struct MergedGraph {
  LayerGraph graph;                                ///< a merged layer has the sums over its members
  std::vector<std::vector<std::int32_t>> members;  ///< by layer of it, ascending
};

/// `graph` with what lies between two layers that every path crosses merged where it has more downsets than
/// are worth planning over (some 256 in all): branches series by series and parallel by parallel, and what is
/// neither by its height. Outputs beside the last one are merged into the layer behind their region. Cuts are
/// left behind every layer that is not inside something merged.
MergedGraph merged_branches(const LayerGraph& graph);

}  // namespace penstock
