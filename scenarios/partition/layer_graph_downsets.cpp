// Finds all downsets of a layer graph. It starts from the smallest downset, and adds any layer whose
// inputs are all in the downset. Example:
//
//   0 --+--> 1 --+--> 3          {} {0} {0 1} {0 2} {0 1 2} {0 1 2 3}
//       +--> 2 --+
//
// A chain of n layers has n + 1 downsets. The numbers of downsets of parallel branches multiply. Tested by
// pipedream_partition_test.cpp.

#include "scenarios/partition/pipedream_partition.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <boost/graph/adjacency_list.hpp>
#include <boost/range/iterator_range.hpp>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {
namespace {

constexpr std::size_t kMostDownsets = 4096;  // the limit for a graph with branches
constexpr std::size_t kMostLayers = 8191;    // the limit for any graph; tables of a chain then take 128 MiB

using Members = std::vector<std::uint64_t>;
using Dependences = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS>;

constexpr std::size_t kWordBits = 64;

bool has(const Members& members, std::size_t layer) {
  return (members[layer / kWordBits] >> (layer % kWordBits) & 1) != 0;
}

Members with(Members members, std::size_t layer) {
  members[layer / kWordBits] |= std::uint64_t{1} << (layer % kWordBits);
  return members;
}

Dependences dependences_of(const LayerGraph& graph) {
  Dependences dependences(graph.layers.size());
  for (std::size_t layer = 0; layer < graph.layers.size(); ++layer) {
    for (const std::int32_t input : graph.layers[layer].inputs)
      boost::add_edge(static_cast<std::size_t>(input), layer, dependences);
  }
  return dependences;
}

bool inputs_are_in(const Dependences& dependences, const Members& members, std::size_t layer) {
  return std::ranges::all_of(boost::make_iterator_range(boost::in_edges(layer, dependences)),
                             [&](const auto& edge) { return has(members, source(edge, dependences)); });
}

bool costs_nothing(const Layer& layer) {
  return layer.forward_ns == 0 && layer.backward_ns == 0 && layer.output == 0 && layer.kept_bytes() == 0 &&
         layer.weights == 0;
}

/// Returns the layers that every downset contains. They are the layers without cost that depend on no layer
/// with a cost.
Members first_members(const LayerGraph& graph, const Dependences& dependences) {
  const Members none((graph.layers.size() + kWordBits - 1) / kWordBits, 0);
  // If such a layer could be left out of a downset, it would double the number of downsets. An example is the
  // model's input in profiles.
  Members members = none;
  std::size_t count = 0;
  for (std::size_t layer = 0; layer < graph.layers.size(); ++layer) {
    // Layers are visited in topological order. A layer without cost is therefore also found if its input is
    // another such layer.
    if (!costs_nothing(graph.layers[layer]) || !inputs_are_in(dependences, members, layer)) continue;
    members = with(std::move(members), layer);
    ++count;
  }
  // If no layer has a cost, these layers would be the whole model. The first downset must then be empty, so
  // that layers remain for the stages.
  return count == graph.layers.size() ? none : members;
}

/// Returns true if a layer outside the set `members` reads the output of `layer`.
bool is_alive(const Dependences& dependences, const Members& members, std::size_t layer) {
  return std::ranges::any_of(boost::make_iterator_range(boost::out_edges(layer, dependences)),
                             [&](const auto& edge) { return !has(members, target(edge, dependences)); });
}

Downset summed(const LayerGraph& graph, const Dependences& dependences, const Members& members) {
  Downset set;
  set.members = members;
  for (std::size_t layer = 0; layer < graph.layers.size(); ++layer) {
    if (!has(members, layer)) continue;
    const Layer& one = graph.layers[layer];
    ++set.size;
    set.time_ns += one.forward_ns + one.backward_ns;
    set.kept += one.kept_bytes();
    set.weights += one.weights;
    if (is_alive(dependences, members, layer)) set.alive += one.output;
  }
  return set;
}

/// Returns true if the sums of times and of bytes over all layers fit in 64 bits. This function adds with 128
/// bits. Later code can then add with 64 bits.
bool sums_fit(const LayerGraph& graph) {
  Wide time = 0;
  Wide outputs = 0;
  Wide kept = 0;
  Wide weights = 0;
  for (const Layer& layer : graph.layers) {
    time += static_cast<Wide>(layer.forward_ns) + layer.backward_ns;
    outputs += layer.output;
    kept += layer.kept_bytes();
    weights += layer.weights;
  }
  return std::max({time, outputs, kept, weights}) <= std::numeric_limits<std::int64_t>::max();
}

/// A downset, and the layers that may be added to it next.
struct Growing {
  Downset set;
  std::vector<std::size_t> ready;
};

Growing first_of(const LayerGraph& graph, const Dependences& dependences) {
  Growing first{.set = summed(graph, dependences, first_members(graph, dependences)), .ready = {}};
  for (std::size_t layer = 0; layer < graph.layers.size(); ++layer) {
    if (!has(first.set.members, layer) && inputs_are_in(dependences, first.set.members, layer))
      first.ready.push_back(layer);
  }
  return first;
}

/// Returns the downset with one more layer. The sums are updated and not computed again, so a chain of n
/// layers takes only n steps.
Growing grown_by(Growing grown, std::size_t layer, const LayerGraph& graph, const Dependences& dependences) {
  Downset& set = grown.set;
  const Layer& one = graph.layers[layer];
  set.members = with(std::move(set.members), layer);
  ++set.size;
  set.time_ns += one.forward_ns + one.backward_ns;
  set.kept += one.kept_bytes();
  set.weights += one.weights;
  // The downset contains no layer yet that reads the output of the new layer. So this output is alive if any
  // layer of the graph reads it.
  if (is_alive(dependences, set.members, layer)) set.alive += one.output;
  // The output of an input layer is no longer alive if the new layer was the last one that reads it.
  for (const std::int32_t input : one.inputs) {
    const auto source = static_cast<std::size_t>(input);
    if (!is_alive(dependences, set.members, source)) set.alive -= graph.layers[source].output;
  }
  std::erase(grown.ready, layer);
  for (const auto& edge : boost::make_iterator_range(boost::out_edges(layer, dependences))) {
    const std::size_t reader = target(edge, dependences);
    // One input of `reader` is the new layer, which was missing until now. So `reader` cannot be in `ready`
    // yet.
    if (inputs_are_in(dependences, set.members, reader)) grown.ready.push_back(reader);
  }
  return grown;
}

tl::unexpected<std::string> too_many(std::size_t layers, std::size_t most) {
  // A chain of n layers has n + 1 downsets. So if there are fewer layers than `most`, the branches of the
  // graph are the reason for the error.
  if (layers < most) {
    return tl::unexpected(fmt::format(
        "the layer graph branches into more than {} downsets, too many to plan over: merge parallel layers "
        "into one, or take partition: balanced or a list of cuts",
        most));
  }
  return tl::unexpected(
      fmt::format("the model has {} layers, too many to plan over: expected at most {}; merge neighbouring "
                  "layers into one, or take partition: balanced or a list of cuts",
                  layers, most - 1));
}

/// Returns all downsets in arbitrary order, found by depth-first search. Returns an error if there are more
/// than `most`, because a graph of n branches has about 2^n downsets.
tl::expected<std::vector<Downset>, std::string> grown(const LayerGraph& graph, std::size_t most) {
  const Dependences dependences = dependences_of(graph);
  std::vector<Growing> front = {first_of(graph, dependences)};
  // The set is needed because layers can be added in different orders, which lead to the same downset.
  std::set<Members> found = {front.front().set.members};
  std::vector<Downset> downsets;
  while (!front.empty()) {
    // The search order does not matter, because all downsets are sorted at the end. The last entry is taken
    // to keep the list short.
    Growing here = std::move(front.back());
    front.pop_back();
    for (const std::size_t layer : here.ready) {
      if (!found.insert(with(here.set.members, layer)).second) continue;
      if (found.size() > most) return too_many(graph.layers.size(), most);
      front.push_back(grown_by(here, layer, graph, dependences));
    }
    downsets.push_back(std::move(here.set));
  }
  return downsets;
}

}  // namespace

bool Downset::holds(std::int32_t layer) const { return has(members, static_cast<std::size_t>(layer)); }

bool Downset::includes(const Downset& other) const {
  for (std::size_t word = 0; word < members.size(); ++word) {
    if ((other.members[word] & ~members[word]) != 0) return false;
  }
  return true;
}

tl::expected<std::vector<Downset>, std::string> downsets_of(const LayerGraph& graph, std::size_t most) {
  if (!sums_fit(graph)) {
    return tl::unexpected(std::string("the times or bytes of the model's layers add up to more than 2^63"));
  }
  auto found = grown(graph, most);
  if (!found) return found;
  std::vector<Downset>& downsets = *found;
  // The sort by size puts each downset after all downsets that it includes. The sort by members makes the
  // order independent of the search.
  std::ranges::sort(downsets, [](const Downset& a, const Downset& b) {
    return std::tie(a.size, a.members) < std::tie(b.size, b.members);
  });
  return found;
}

std::vector<std::int32_t> layers_between(const Downset& smaller, const Downset& larger) {
  std::vector<std::int32_t> layers;
  for (std::size_t word = 0; word < larger.members.size(); ++word) {
    // Each iteration handles the lowest bit of `rest` and then clears it.
    for (std::uint64_t rest = larger.members[word] & ~smaller.members[word]; rest != 0; rest &= rest - 1)
      layers.push_back(static_cast<std::int32_t>(word * kWordBits) + std::countr_zero(rest));
  }
  return layers;
}

tl::expected<std::vector<Downset>, std::string> planned_downsets_of(const LayerGraph& graph) {
  return downsets_of(graph, std::max(kMostDownsets, std::min(graph.layers.size(), kMostLayers) + 1));
}

bool can_be_planned_over(const LayerGraph& graph) {
  // If the graph is too long or its sums overflow, merging branches does not help. This function then returns
  // true, and planning returns the error.
  const bool is_long = graph.layers.size() > kMostLayers;
  return is_long || graph.layers.empty() || !sums_fit(graph) || planned_downsets_of(graph).has_value();
}

}  // namespace penstock
