#pragma once
// A layer graph that has too many branches for planning layer by layer, with parallel branches merged. Used
// by prepare/planning_task.cpp.

#include <cstdint>
#include <vector>

#include "scenarios/model/model.hpp"

namespace penstock {

/// A merged graph and the original layers of each merged layer.
struct MergedGraph {
  /// The graph, in which a merged layer has the sums over its members.
  LayerGraph graph;
  /// The members of each layer of the graph, ascending.
  std::vector<std::vector<std::int32_t>> members;
};

/// Returns `graph` with regions merged that have more downsets than planning can afford (about 256 in all). A
/// region lies between two layers that every path crosses. Series and parallel branches are merged first, and
/// the rest by height. Outputs other than the last one are merged into the layer after their region. A cut
/// remains possible after every layer that is not inside a merged one.
MergedGraph merged_branches(const LayerGraph& graph);

}  // namespace penstock
