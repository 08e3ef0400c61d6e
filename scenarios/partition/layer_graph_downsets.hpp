#pragma once
// The downsets of a layer graph. A downset is a set of layers that a pipeline may have run after some stage.
// Downsets are the states of PipeDream's dynamic programme (pipedream_partition.hpp).

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// A set of layers with sums over them. If it contains a layer, it also contains all layers that this layer
/// reads.
struct Downset {
  /// The members as bits: layer l is bit l % 64 of word l / 64.
  std::vector<std::uint64_t> members;
  std::int32_t size = 0;
  /// The time of forward + backward of all layers.
  Ns time_ns = 0;
  /// The bytes that the layers hold for their backward pass.
  Bytes kept = 0;
  Bytes weights = 0;
  /// The bytes of the outputs that layers outside the set read. Each output counts once.
  Bytes alive = 0;

  bool holds(std::int32_t layer) const;
  /// Returns true if this set contains every layer of `other`.
  bool includes(const Downset& other) const;

  friend bool operator==(const Downset&, const Downset&) = default;
};

/// Returns all downsets that may end a stage, sorted by size and then by members. The first is before every
/// pipeline, and the last has all layers. The first contains layers without cost that depend on no others,
/// such as a handle to initial hidden states, because they would only multiply the states. Otherwise it is
/// empty. Errors: sums that exceed 2^63, more than `most` downsets (a chain of n layers has n + 1, a wide
/// graph exponentially many).
tl::expected<std::vector<Downset>, std::string> downsets_of(const LayerGraph& graph, std::size_t most);

/// Returns the downsets of a graph, with the limits of planning. Errors: sums that exceed 2^63, branches with
/// more than 4,096 downsets, a chain of more than 8,191 layers.
tl::expected<std::vector<Downset>, std::string> planned_downsets_of(const LayerGraph& graph);

/// Returns false if the branches of a graph have too many downsets, which with_merged_branches() can reduce.
/// Returns true for all other graphs, even if planning refuses them because of their length or their sums.
bool can_be_planned_over(const LayerGraph& graph);

/// Returns the layers of `larger` that are not in `smaller`, in ascending order.
std::vector<std::int32_t> layers_between(const Downset& smaller, const Downset& larger);

// Merges parallel branches of a layer graph that has too many branches for planning layer by layer.

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
