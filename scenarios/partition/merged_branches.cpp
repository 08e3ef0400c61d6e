// Layers that every path crosses are the dominators of the graph's end (Lengauer and Tarjan, TOPLAS 1979).
// What lies between two of them is a region, and downsets of regions add up while those of branches multiply:
//
//          +-> b -> c -+                     b c: series, one layer
//   a -----+-> d ------+---> f    a, f: dominators; bc, d and e have equal neighbours: parallel, one layer
//          +-> e ------+                     a -> bcde -> f
//
// A region that no series and no parallel step makes small (cells that read the two before them) becomes a
// chain of its depths: layers of equal longest path from its begin do not depend on each other.

#include "scenarios/partition/merged_branches.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dominator_tree.hpp>
#include <boost/property_map/property_map.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/layer_graph_downsets.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

constexpr std::size_t kWide = 64;  // downsets that any region may have

using Dependences = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS>;
using Vertex = boost::graph_traits<Dependences>::vertex_descriptor;

/// The layers in an order in which they can run, cut at those that every path crosses.
class Dominators {
 public:
  explicit Dominators(const LayerGraph& graph) : begin_(graph.layers.size()), end_(begin_ + 1) {
    Dependences dependences(end_ + 1);
    std::vector<bool> is_read(begin_, false);
    for (std::size_t layer = 0; layer < begin_; ++layer) {
      const std::vector<std::int32_t>& inputs = graph.layers[layer].inputs;
      if (inputs.empty()) add_edge(begin_, layer, dependences);
      for (const std::int32_t input : inputs) {
        add_edge(static_cast<Vertex>(input), layer, dependences);
        is_read[static_cast<std::size_t>(input)] = true;
      }
    }
    for (std::size_t layer = 0; layer < begin_; ++layer)
      if (!is_read[layer]) add_edge(layer, end_, dependences);
    parents_.assign(end_ + 1, begin_);
    lengauer_tarjan_dominator_tree(
        dependences, begin_,
        boost::make_iterator_property_map(parents_.begin(), get(boost::vertex_index, dependences)));
  }

  /// True for the layers that every path from begin to end crosses.
  std::vector<bool> on_every_path() const {
    std::vector<bool> crossed(begin_, false);
    for (Vertex node = parents_[end_]; node != begin_; node = parents_[node]) crossed[node] = true;
    return crossed;
  }

 private:
  Vertex begin_;
  Vertex end_;
  std::vector<Vertex> parents_;
};

/// Groups of layers, each with its neighbours. Groups are numbered by their first layer.
class LayerGroups {
 public:
  explicit LayerGroups(const LayerGraph& graph) : graph_(graph), group_of_(graph.layers.size()) {
    for (std::size_t layer = 0; layer < group_of_.size(); ++layer)
      group_of_[layer] = static_cast<std::int32_t>(layer);
  }

  std::int32_t of(std::int32_t layer) const { return group_of_[static_cast<std::size_t>(layer)]; }

  void merge(std::int32_t into, std::int32_t group) { std::ranges::replace(group_of_, group, into); }
  void put(std::int32_t layer, std::int32_t group) { group_of_[static_cast<std::size_t>(layer)] = group; }

  /// The groups that a group reads from, by group; and those that read it.
  struct Neighbours {
    std::map<std::int32_t, std::set<std::int32_t>> inputs;
    std::map<std::int32_t, std::set<std::int32_t>> readers;
  };
  Neighbours neighbours() const {
    Neighbours found;
    for (std::size_t layer = 0; layer < group_of_.size(); ++layer) {
      const std::int32_t here = group_of_[layer];
      found.inputs[here];
      found.readers[here];
      for (const std::int32_t input : graph_.layers[layer].inputs) {
        if (of(input) == here) continue;
        found.inputs[here].insert(of(input));
        found.readers[of(input)].insert(here);
      }
    }
    return found;
  }

 private:
  const LayerGraph& graph_;
  std::vector<std::int32_t> group_of_;
};

using Region = std::vector<std::int32_t>;  // layers, ascending

/// What lies between two layers that every path crosses, or beside all paths through one.
std::vector<Region> regions_of(const LayerGraph& graph, const std::vector<bool>& crossed) {
  // A layer lies behind as many of them as the longest of its paths has met.
  std::vector<std::int32_t> met(graph.layers.size(), 0);
  std::map<std::int32_t, Region> regions;
  for (std::size_t layer = 0; layer < graph.layers.size(); ++layer) {
    for (const std::int32_t input : graph.layers[layer].inputs) {
      const auto read = static_cast<std::size_t>(input);
      met[layer] = std::max(met[layer], met[read] + (crossed[read] ? 1 : 0));
    }
    if (!crossed[layer]) regions[met[layer]].push_back(static_cast<std::int32_t>(layer));
  }
  std::vector<Region> found;
  found.reserve(regions.size());
  for (auto& [number, region] : regions) found.push_back(std::move(region));
  return found;
}

/// The region alone, as the groups have it.
bool is_wide(const LayerGraph& graph, const Region& region, const LayerGroups& groups) {
  LayerGraph alone;
  std::map<std::int32_t, std::int32_t> place;
  for (const std::int32_t layer : region) {
    const std::int32_t group = groups.of(layer);
    if (place.contains(group)) continue;
    place[group] = static_cast<std::int32_t>(alone.layers.size());
    alone.layers.push_back({.name = "", .forward_ns = 1, .backward_ns = 1, .inputs = {}});
  }
  for (const std::int32_t layer : region) {
    Layer& mine = alone.layers[static_cast<std::size_t>(place[groups.of(layer)])];
    for (const std::int32_t input : graph.layers[static_cast<std::size_t>(layer)].inputs) {
      const auto known = place.find(groups.of(input));
      if (known != place.end() && known->first != groups.of(layer)) mine.inputs.push_back(known->second);
    }
    std::ranges::sort(mine.inputs);
    mine.inputs.erase(std::ranges::unique(mine.inputs).begin(), mine.inputs.end());
  }
  return !downsets_of(alone, std::max(kWide, 4 * region.size())).has_value();
}

std::set<std::int32_t> groups_in(const Region& region, const LayerGroups& groups) {
  std::set<std::int32_t> found;
  for (const std::int32_t layer : region) found.insert(groups.of(layer));
  return found;
}

/// One series or parallel step inside the region; false where there is none.
bool reduce(const Region& region, LayerGroups& groups) {
  const LayerGroups::Neighbours around = groups.neighbours();
  const std::set<std::int32_t> inside = groups_in(region, groups);
  for (const std::int32_t group : inside) {
    const std::set<std::int32_t>& readers = around.readers.at(group);
    if (readers.size() != 1 || !inside.contains(*readers.begin())) continue;
    if (around.inputs.at(*readers.begin()).size() != 1) continue;
    groups.merge(group, *readers.begin());
    return true;
  }
  std::map<std::pair<std::set<std::int32_t>, std::set<std::int32_t>>, std::int32_t> by_neighbours;
  for (const std::int32_t group : inside) {
    const auto [twin, is_first] =
        by_neighbours.try_emplace({around.inputs.at(group), around.readers.at(group)}, group);
    if (is_first) continue;
    groups.merge(twin->second, group);
    return true;
  }
  return false;
}

/// Layers of equal depth become one: what they read is less deep.
void merge_by_depth(const LayerGraph& graph, const Region& region, LayerGroups& groups) {
  std::map<std::int32_t, std::int32_t> depth;  // by layer
  std::map<std::int32_t, std::int32_t> first;  // layer of each depth
  for (const std::int32_t layer : region) {
    depth[layer] = 0;
    for (const std::int32_t input : graph.layers[static_cast<std::size_t>(layer)].inputs)
      if (depth.contains(input)) depth[layer] = std::max(depth[layer], depth[input] + 1);
    first.try_emplace(depth[layer], layer);
  }
  for (const std::int32_t layer : region) groups.put(layer, first[depth[layer]]);
}

/// The figures of a group: sums, and what is read of it outside once.
Layer merged(const LayerGraph& graph, const std::vector<std::int32_t>& members, const LayerGroups& groups,
             const std::vector<bool>& is_read_outside) {
  if (members.size() == 1) return graph.layers[static_cast<std::size_t>(members.front())];
  Layer sum = {.name = fmt::format(
                   "{} .. {} ({} layers)", graph.layers[static_cast<std::size_t>(members.front())].name,
                   graph.layers[static_cast<std::size_t>(members.back())].name, members.size()),
               .inputs = {}};
  Bytes kept = 0;
  for (const std::int32_t member : members) {
    const Layer& layer = graph.layers[static_cast<std::size_t>(member)];
    sum.forward_ns += layer.forward_ns;
    sum.backward_ns += layer.backward_ns;
    sum.weights += layer.weights;
    sum.transient = std::max(sum.transient, layer.transient);
    if (is_read_outside[static_cast<std::size_t>(member)]) sum.output += layer.output;
    kept += layer.kept_bytes();
    for (const std::int32_t input : layer.inputs)
      if (groups.of(input) != groups.of(member)) sum.inputs.push_back(input);
  }
  sum.kept = kept;
  return sum;
}

std::vector<bool> read_outside(const LayerGraph& graph, const LayerGroups& groups) {
  std::vector<bool> found(graph.layers.size(), false);
  for (std::size_t layer = 0; layer < graph.layers.size(); ++layer) {
    for (const std::int32_t input : graph.layers[layer].inputs) {
      if (groups.of(input) != groups.of(static_cast<std::int32_t>(layer)))
        found[static_cast<std::size_t>(input)] = true;
    }
  }
  return found;
}

/// The groups in an order in which they can run: each as soon as all that it reads has.
std::vector<std::int32_t> order_of(const LayerGroups& groups) {
  LayerGroups::Neighbours around = groups.neighbours();
  std::set<std::int32_t> ready;
  for (const auto& [group, inputs] : around.inputs)
    if (inputs.empty()) ready.insert(group);
  std::vector<std::int32_t> order;
  while (!ready.empty()) {
    const std::int32_t group = *ready.begin();
    ready.erase(ready.begin());
    order.push_back(group);
    for (const std::int32_t reader : around.readers[group]) {
      around.inputs[reader].erase(group);
      if (around.inputs[reader].empty()) ready.insert(reader);
    }
  }
  return order;
}

MergedGraph graph_of(const LayerGraph& graph, const LayerGroups& groups) {
  std::map<std::int32_t, std::vector<std::int32_t>> members;
  for (std::size_t layer = 0; layer < graph.layers.size(); ++layer)
    members[groups.of(static_cast<std::int32_t>(layer))].push_back(static_cast<std::int32_t>(layer));
  MergedGraph result{.graph = {.layers = {}, .overhead_ns = graph.overhead_ns}, .members = {}};
  const std::vector<bool> is_read_outside = read_outside(graph, groups);
  std::map<std::int32_t, std::int32_t> place;  // by group
  for (const std::int32_t group : order_of(groups)) {
    place[group] = static_cast<std::int32_t>(place.size());
    Layer layer = merged(graph, members[group], groups, is_read_outside);
    for (std::int32_t& input : layer.inputs) input = place[groups.of(input)];
    std::ranges::sort(layer.inputs);
    layer.inputs.erase(std::ranges::unique(layer.inputs).begin(), layer.inputs.end());
    result.graph.layers.push_back(std::move(layer));
    result.members.push_back(members[group]);
  }
  return result;
}

}  // namespace

MergedGraph merged_branches(const LayerGraph& graph) {
  LayerGroups groups(graph);
  for (const Region& region : regions_of(graph, Dominators(graph).on_every_path())) {
    if (!is_wide(graph, region, groups)) continue;
    while (is_wide(graph, region, groups) && reduce(region, groups)) {
    }
    if (is_wide(graph, region, groups)) merge_by_depth(graph, region, groups);
  }
  return graph_of(graph, groups);
}

}  // namespace penstock
