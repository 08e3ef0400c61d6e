#pragma once
// Reads and writes the layer graphs that PipeDream's profiler writes (graph.txt;
// github.com/msr-fiddle/pipedream, profiler/*/profiles). Used by load_model.cpp for `profile: FILE`.

#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"

namespace penstock {

/// The layers of a profile, for the batch that it was taken at, in the topological order that always takes
/// the ready node with the smallest number. A layer's name is its operation and number ("Conv2d-4"). Dropped
/// are nodes that load data (`Input`, `Input0`, ...) and `__getitem__` nodes that nothing reads. `file` is
/// the name that errors show. Errors (FILE:LINE: ...): a line that is neither a node nor an edge, a figure
/// that is no number, a node twice, an edge to a node that does not exist, a cycle; no layer at all.
tl::expected<LayerGraph, std::string> parse_pipedream_profile(std::string_view text, std::string_view file);

/// The profile of a graph, which parse_pipedream_profile() reads back: a layer called "Conv2d-4" becomes
/// node4 with the operation Conv2d; where names do not end in numbers of their own, nodes are counted. The
/// graph's overhead has no place in the format.
std::string pipedream_profile_text(const LayerGraph& graph);

}  // namespace penstock
