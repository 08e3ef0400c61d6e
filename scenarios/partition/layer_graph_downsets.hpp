#pragma once
// The downsets of a layer graph: the sets of layers that a pipeline may have run after some stage. They are
// the states of PipeDream's dynamic programme (pipedream_partition.hpp); each is named by its antichain of
// last layers there.

#include <cstddef>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/model/model.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// A set of layers that holds, with each layer, all layers that it reads; with sums over its layers.
struct Downset {
  std::vector<std::uint64_t> members;  ///< layer l is bit l % 64 of word l / 64
  std::int32_t size = 0;
  Ns time_ns = 0;  ///< forward + backward
  Bytes kept = 0;  ///< what is kept of the layers for their backward pass
  Bytes weights = 0;
  Bytes alive = 0;  ///< outputs that a layer outside reads, each counted once

  bool holds(std::int32_t layer) const;
  /// True when every layer of `other` is in this set, too.
  bool includes(const Downset& other) const;

  friend bool operator==(const Downset&, const Downset&) = default;
};

/// All downsets that may end a stage, by size and then by members; the first begins every pipeline, the last
/// holds all layers. Layers without time, bytes and weights that depend on no other ones (a handle to initial
/// hidden states) are in the first set already: where they run costs nothing, and trying all places for them
/// would only multiply the states. Otherwise the first set is empty. Errors: figures that add up to more
/// than 2^63, more than `most` downsets (a chain of n layers has n + 1, a wide graph exponentially many).
tl::expected<std::vector<Downset>, std::string> downsets_of(const LayerGraph& graph, std::size_t most);

/// Those of a graph that is to be planned. Errors: figures that add up to more than 2^63, a graph that
/// branches into more than 4,096 downsets, a chain of more than 8,191 layers.
tl::expected<std::vector<Downset>, std::string> planned_downsets_of(const LayerGraph& graph);

/// False for a graph that branches into too many downsets, which merged_branches.hpp mends; true of all
/// others, also of those that planning refuses for their length or their figures.
bool can_be_planned_over(const LayerGraph& graph);

/// The layers of `larger` that are not in `smaller`, ascending.
std::vector<std::int32_t> layers_between(const Downset& smaller, const Downset& larger);

}  // namespace penstock
