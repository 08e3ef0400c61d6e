#pragma once
// Merges parallel branches of a layer graph that has too many branches for planning layer by layer. Used by
// prepare/planning_task.cpp.

#include <cstdint>
#include <vector>

#include "scenarios/model/model.hpp"

namespace penstock {

/// A merged graph, and the original layers of each of its layers.
struct MergedGraph {
  /// The graph. A merged layer has the sums over its members.
  LayerGraph graph;
  /// The original layers of each layer of the graph, in ascending order.
  std::vector<std::vector<std::int32_t>> members;
};

/// Returns `graph` with its widest regions merged. They have more downsets than planning can handle (about
/// 256 in all). A region lies between two layers that are on every path. Series and parallel branches are
/// merged first, and the rest by height. An output that does not lead to the end is merged into the layer
/// after its region. A cut remains possible after every layer that was not merged into another.
MergedGraph merged_branches(const LayerGraph& graph);

}  // namespace penstock
