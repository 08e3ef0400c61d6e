// Downsets are found by growing: to a downset, any one layer can be added whose inputs are all in it. From
//
//   0 --+--> 1 --+--> 3          {} {0} {0 1} {0 2} {0 1 2} {0 1 2 3}
//       +--> 2 --+
//
// a chain of n layers has n + 1 of them; branches multiply.

#include "scenarios/layer_graph_downsets.hpp"

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

#include "scenarios/model.hpp"

namespace penstock {
namespace {

__extension__ typedef __int128 Wide;

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
  Members members = none;
  std::size_t count = 0;
  for (std::size_t layer = 0; layer < graph.layers.size(); ++layer) {
    if (!costs_nothing(graph.layers[layer]) || !inputs_are_in(dependences, members, layer)) continue;
    members = with(std::move(members), layer);
    ++count;
  }
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

tl::expected<std::set<Members>, std::string> grown(const Dependences& dependences, Members first,
                                                   std::size_t most) {
  std::set<Members> found = {first};
  std::vector<Members> front = {std::move(first)};
  while (!front.empty()) {
    const Members members = std::move(front.back());
    front.pop_back();
    for (std::size_t layer = 0; layer < boost::num_vertices(dependences); ++layer) {
      if (has(members, layer) || !inputs_are_in(dependences, members, layer)) continue;
      const auto [place, is_new] = found.insert(with(members, layer));
      if (is_new) front.push_back(*place);
      if (found.size() > most) {
        return tl::unexpected(fmt::format(
            "the layer graph branches into more than {} downsets, too many to plan over: merge parallel "
            "layers into one, or take partition: balanced or a list of cuts",
            most));
      }
    }
  }
  return found;
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
  const Dependences dependences = dependences_of(graph);
  const auto found = grown(dependences, first_members(graph, dependences), most);
  if (!found) return tl::unexpected(found.error());
  std::vector<Downset> downsets;
  for (const Members& members : *found) downsets.push_back(summed(graph, dependences, members));
  std::ranges::sort(downsets, [](const Downset& a, const Downset& b) {
    return std::tie(a.size, a.members) < std::tie(b.size, b.members);
  });
  return downsets;
}

std::vector<std::int32_t> layers_between(const Downset& smaller, const Downset& larger) {
  std::vector<std::int32_t> layers;
  for (std::size_t word = 0; word < larger.members.size(); ++word) {
    for (std::uint64_t rest = larger.members[word] & ~smaller.members[word]; rest != 0; rest &= rest - 1)
      layers.push_back(static_cast<std::int32_t>(word * kWordBits) + std::countr_zero(rest));
  }
  return layers;
}

}  // namespace penstock
