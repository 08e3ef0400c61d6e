#pragma once
// Reads and writes layer graphs in the format of PipeDream's profiler (graph.txt;
// github.com/msr-fiddle/pipedream, profiler/*/profiles). load_model.cpp uses it for `profile: FILE`.

#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"

namespace penstock {

/// Reads the layers of a PipeDream profile. The times and bytes hold for the profile's batch size. Layers
/// are in topological order. Among nodes whose inputs are all available, the node with the smallest number
/// comes first. A layer's name is its operation and number ("Conv2d-4"). Nodes that load data (`Input`,
/// `Input0`, ...) are dropped, and so are `__getitem__` nodes that no layer reads. `file` is the name in
/// errors. Errors (FILE:LINE: ...): a line that is neither a node nor an edge; a figure that is not a
/// number; a node that occurs twice; an edge to an unknown node; a cycle; no layer.
tl::expected<LayerGraph, std::string> parse_pipedream_profile(std::string_view text, std::string_view file);

/// Returns a layer graph as the text of a PipeDream profile, which parse_pipedream_profile() can read. A
/// layer "Conv2d-4" becomes node4 with the operation Conv2d. If the names do not end in distinct numbers,
/// nodes are numbered in order. The format cannot contain the graph's overhead.
std::string pipedream_profile_text(const LayerGraph& graph);

}  // namespace penstock
