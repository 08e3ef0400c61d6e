#pragma once
// The downsets of a layer graph: the sets of layers that a pipeline may have run after some stage. They are
// the states of PipeDream's dynamic programme (pipedream_partition.hpp), which names each by the antichain of
// its last layers.

#include <cstddef>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/model/model.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// A set of layers that contains with each layer all layers that it reads, with sums over its layers.
struct Downset {
  /// The members as bits: layer l is bit l % 64 of word l / 64.
  std::vector<std::uint64_t> members;
  std::int32_t size = 0;
  /// The time of forward + backward.
  Ns time_ns = 0;
  /// The bytes that the layers hold for their backward pass.
  Bytes kept = 0;
  Bytes weights = 0;
  /// The bytes of the outputs that layers outside the set read, each output counted once.
  Bytes alive = 0;

  bool holds(std::int32_t layer) const;
  /// Returns true if every layer of `other` is in this set, too.
  bool includes(const Downset& other) const;

  friend bool operator==(const Downset&, const Downset&) = default;
};

/// Returns all downsets that may end a stage, by size and then by members. The first begins every pipeline,
/// and the last holds all layers. The first set contains layers without time, bytes and weights that depend
/// on no other layers (such as a handle to initial hidden states), because they only multiply the states.
/// Otherwise it is empty. Errors: figures that add up to more than 2^63, more than `most` downsets (a chain
/// of n layers has n + 1, a wide graph exponentially many).
tl::expected<std::vector<Downset>, std::string> downsets_of(const LayerGraph& graph, std::size_t most);

/// Returns the downsets of a graph for planning. Errors: figures that add up to more than 2^63, branches with
/// more than 4,096 downsets, a chain of more than 8,191 layers.
tl::expected<std::vector<Downset>, std::string> planned_downsets_of(const LayerGraph& graph);

/// Returns false for a graph whose branches have too many downsets, which merged_branches.hpp can reduce.
/// Returns true for all others, including graphs that planning refuses for their length or their figures.
bool can_be_planned_over(const LayerGraph& graph);

/// Returns the layers of `larger` that are not in `smaller`, ascending.
std::vector<std::int32_t> layers_between(const Downset& smaller, const Downset& larger);

}  // namespace penstock
