#pragma once
// The downsets of a layer graph. A downset is a set of layers that contains all inputs of its layers, so
// that it can form the first stages of a pipeline. Downsets are the states of PipeDream's dynamic
// programme (pipedream_partition.hpp).

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// A set of layers, and sums over these layers. If the set contains a layer, it also contains all inputs of
/// this layer.
struct Downset {
  /// The members as bits: layer l is bit l % 64 of word l / 64.
  std::vector<std::uint64_t> members;
  std::int32_t size = 0;
  /// The time of the forward and backward passes of all layers in the set.
  Ns time_ns = 0;
  /// The bytes that the layers store for their backward pass.
  Bytes kept = 0;
  Bytes weights = 0;
  /// The bytes of the outputs that layers outside the set read from layers inside it. Each output counts
  /// once.
  Bytes alive = 0;

  bool holds(std::int32_t layer) const;
  /// Returns true if this set contains every layer of `other`.
  bool includes(const Downset& other) const;

  friend bool operator==(const Downset&, const Downset&) = default;
};

/// Returns all downsets after which a stage may end, sorted by size and then by members. The last downset
/// has all layers. The first one is the downset before the first stage. It contains those layers without
/// cost that depend on no layer with a cost, because such layers would only increase the number of
/// downsets. It is empty if there are no such layers. Errors: sums that exceed 2^63; more than `most`
/// downsets. A chain of n layers has n + 1 downsets, and a graph of n branches has about 2^n.
tl::expected<std::vector<Downset>, std::string> downsets_of(const LayerGraph& graph, std::size_t most);

/// Returns the downsets of a graph if it is small enough for planning. Errors: sums that exceed 2^63; more
/// than 4,096 downsets because of branches; more than 8,191 layers.
tl::expected<std::vector<Downset>, std::string> planned_downsets_of(const LayerGraph& graph);

/// Returns false if the branches of a graph lead to too many downsets. with_merged_branches() can then
/// reduce their number. Returns true for all other graphs. Planning may still refuse such a graph because
/// of its length or its sums.
bool can_be_planned_over(const LayerGraph& graph);

/// Returns the layers of `larger` that are not in `smaller`, in ascending order.
std::vector<std::int32_t> layers_between(const Downset& smaller, const Downset& larger);

// Merges parallel branches of a layer graph that has too many downsets for planning.

/// A graph of merged layers, and the original layers in each merged layer.
struct MergedGraph {
  /// The graph. The figures of a merged layer are the sums over its members.
  LayerGraph graph;
  /// The original layers of each layer of the graph, in ascending order.
  std::vector<std::vector<std::int32_t>> members;
};

/// Returns `graph` with fewer layers: it merges layers in the regions that have too many downsets. A region
/// consists of the layers between two layers that lie on every path. The result has about 256 downsets in
/// total. A cut remains possible after every layer that was not merged into another one.
/// merged_branches.cpp describes the steps.
MergedGraph merged_branches(const LayerGraph& graph);

}  // namespace penstock
