// Downsets are found by growing: to a downset, any one layer can be added whose inputs are all in it. From
//
//   0 --+--> 1 --+--> 3          {} {0} {0 1} {0 2} {0 1 2} {0 1 2 3}
//       +--> 2 --+
//
// a chain of n layers has n + 1 of them; branches multiply.

#include "scenarios/partition/layer_graph_downsets.hpp"

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

constexpr std::size_t kMostDownsets = 4096;  // of a branching graph
constexpr std::size_t kMostLayers = 8191;    // of any; the pairs of a chain's downsets take 128 MiB

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

/// The layers that are in every downset.
Members first_members(const LayerGraph& graph, const Dependences& dependences) {
  const Members none((graph.layers.size() + kWordBits - 1) / kWordBits, 0);
  // What profiles list but costs nothing (the model's input) would otherwise double the downsets, each
  // with and without it.
  Members members = none;
  std::size_t count = 0;
  for (std::size_t layer = 0; layer < graph.layers.size(); ++layer) {
    // In order, so that a free layer behind free ones is found as well.
    if (!costs_nothing(graph.layers[layer]) || !inputs_are_in(dependences, members, layer)) continue;
    members = with(std::move(members), layer);
    ++count;
  }
  // A model in which nothing costs anything still needs an empty downset to begin with.
  return count == graph.layers.size() ? none : members;
}

/// True when an output of the layer is read outside.
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

/// True when the sums over all layers, and so those over some, fit 64 bits.
/// Checked once and wide, so that what follows may add in 64 bits.
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

/// A downset and the layers that may join it next.
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

/// The sums follow from those before, so that a chain takes as many steps as it has layers.
Growing grown_by(Growing grown, std::size_t layer, const LayerGraph& graph, const Dependences& dependences) {
  Downset& set = grown.set;
  const Layer& one = graph.layers[layer];
  set.members = with(std::move(set.members), layer);
  ++set.size;
  set.time_ns += one.forward_ns + one.backward_ns;
  set.kept += one.kept_bytes();
  set.weights += one.weights;
  // A new layer's readers are all outside still, so that it is alive if it has any.
  if (is_alive(dependences, set.members, layer)) set.alive += one.output;
  // An input dies when this was its last reader.
  for (const std::int32_t input : one.inputs) {
    const auto source = static_cast<std::size_t>(input);
    if (!is_alive(dependences, set.members, source)) set.alive -= graph.layers[source].output;
  }
  std::erase(grown.ready, layer);
  for (const auto& edge : boost::make_iterator_range(boost::out_edges(layer, dependences))) {
    const std::size_t reader = target(edge, dependences);
    // It was not ready before, since this layer was missing.
    if (inputs_are_in(dependences, set.members, reader)) grown.ready.push_back(reader);
  }
  return grown;
}

tl::unexpected<std::string> too_many(std::size_t layers, std::size_t most) {
  // A chain alone has one downset more than layers: only below that many layers are branches to blame.
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

/// All downsets in no order, depth first; `most` bounds the work: a graph of n branches has some 2^n of them.
tl::expected<std::vector<Downset>, std::string> grown(const LayerGraph& graph, std::size_t most) {
  const Dependences dependences = dependences_of(graph);
  std::vector<Growing> front = {first_of(graph, dependences)};
  // A set: where branches join again, the same layers are reached in several orders.
  std::set<Members> found = {front.front().set.members};
  std::vector<Downset> downsets;
  while (!front.empty()) {
    // Which one grows next does not matter: all are sorted at the end. The last one keeps the front short.
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
  // By size, so that a downset comes behind all that it includes; by members, so that the order does not
  // depend on how they were found.
  std::ranges::sort(downsets, [](const Downset& a, const Downset& b) {
    return std::tie(a.size, a.members) < std::tie(b.size, b.members);
  });
  return found;
}

std::vector<std::int32_t> layers_between(const Downset& smaller, const Downset& larger) {
  std::vector<std::int32_t> layers;
  for (std::size_t word = 0; word < larger.members.size(); ++word) {
    // Each step takes the lowest bit off.
    for (std::uint64_t rest = larger.members[word] & ~smaller.members[word]; rest != 0; rest &= rest - 1)
      layers.push_back(static_cast<std::int32_t>(word * kWordBits) + std::countr_zero(rest));
  }
  return layers;
}

tl::expected<std::vector<Downset>, std::string> planned_downsets_of(const LayerGraph& graph) {
  return downsets_of(graph, std::max(kMostDownsets, std::min(graph.layers.size(), kMostLayers) + 1));
}

bool can_be_planned_over(const LayerGraph& graph) {
  // What no merging of branches mends is for planning to refuse; merged layers would have sums that wrap.
  const bool is_long = graph.layers.size() > kMostLayers;
  return is_long || graph.layers.empty() || !sums_fit(graph) || planned_downsets_of(graph).has_value();
}

}  // namespace penstock
