// Merges parallel branches of a layer graph, so that it has few enough downsets for planning. The layers
// on every path are the dominators of the graph's end (Lengauer and Tarjan, TOPLAS 1979). The layers
// between two consecutive dominators are a region. The numbers of downsets of regions add up, while those
// of parallel branches multiply:
//
//          +-> b -> c -+                     b c: series, one layer
//   a -----+-> d ------+---> f    a, f: dominators; bc, d and e have equal neighbours: parallel, one layer
//          +-> e ------+                     a -> bcde -> f
//
// Some regions cannot be reduced by these two steps, for example cells that read the two cells before them.
// The layers of such a region are merged by height. The height of a layer is the length of the longest path
// to the region's end. Layers of equal height do not depend on each other. A branch that skips a cell then
// runs as late as possible, and the edges between two cells carry only the outputs of cells.
//
// A branch that leads only to its own output (an auxiliary head) is on no path to the end. It is merged with
// the layer that ends its region, because otherwise it would double the later downsets. Tested by
// merged_branches_test.cpp.

#include "scenarios/partition/pipedream_partition.hpp"

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
#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

constexpr std::size_t kWide = 16;  // the number of downsets that a region may have at least
/// The intended number of downsets of the whole graph. Each region gets a share of this number in proportion
/// to its layers.
constexpr std::size_t kMostOfGraph = 256;

using Dependences = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS>;
using Vertex = boost::graph_traits<Dependences>::vertex_descriptor;

/// Returns a flag for each layer. It is true for the last layer of a longest path, and for all layers on
/// which this layer depends.
std::vector<bool> leading_to_end(const LayerGraph& graph) {
  std::vector<std::int32_t> depth(graph.layers.size(), 0);
  for (std::size_t layer = 0; layer < depth.size(); ++layer) {
    for (const std::int32_t input : graph.layers[layer].inputs)
      depth[layer] = std::max(depth[layer], depth[static_cast<std::size_t>(input)] + 1);
  }
  std::vector<bool> leads(depth.size(), false);
  leads[static_cast<std::size_t>(std::ranges::max_element(depth) - depth.begin())] = true;
  for (std::size_t layer = depth.size(); layer-- > 0;) {
    if (!leads[layer]) continue;
    for (const std::int32_t input : graph.layers[layer].inputs) leads[static_cast<std::size_t>(input)] = true;
  }
  return leads;
}

/// Returns a flag for each layer. It is true if every path from the first layers to the end of the graph
/// contains the layer. Only layers whose flag in `leads` is true are considered.
std::vector<bool> on_every_path(const LayerGraph& graph, const std::vector<bool>& leads) {
  const Vertex begin = graph.layers.size();
  Dependences dependences(begin + 1);
  Vertex end = 0;
  for (std::size_t layer = 0; layer < begin; ++layer) {
    if (!leads[layer]) continue;
    if (graph.layers[layer].inputs.empty()) add_edge(begin, layer, dependences);
    for (const std::int32_t input : graph.layers[layer].inputs)
      add_edge(static_cast<Vertex>(input), layer, dependences);
    end = layer;  // layers are in topological order, so all other layers that lead to the end come earlier
  }
  // Dominators need a single root, so a root is added before all layers without inputs.
  std::vector<Vertex> parents(begin + 1, begin);
  lengauer_tarjan_dominator_tree(
      dependences, begin,
      boost::make_iterator_property_map(parents.begin(), get(boost::vertex_index, dependences)));
  std::vector<bool> crossed(begin, false);
  for (Vertex node = end; node != begin; node = parents[node]) crossed[node] = true;
  return crossed;
}

/// A division of the layers into groups. The number of a group is the index of one of its layers.
class LayerGroups {
 public:
  explicit LayerGroups(const LayerGraph& graph) : graph_(graph), group_of_(graph.layers.size()) {
    for (std::size_t layer = 0; layer < group_of_.size(); ++layer)
      group_of_[layer] = static_cast<std::int32_t>(layer);
  }

  std::int32_t of(std::int32_t layer) const { return group_of_[static_cast<std::size_t>(layer)]; }

  /// Moves all layers of `group` into the group `into`. The number `group` is then unused.
  void merge(std::int32_t into, std::int32_t group) { std::ranges::replace(group_of_, group, into); }
  /// Moves one layer into a group.
  void put(std::int32_t layer, std::int32_t group) { group_of_[static_cast<std::size_t>(layer)] = group; }

  /// The neighbours of each group: the groups whose outputs it reads, and the groups that read its output.
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

using Region = std::vector<std::int32_t>;  // the layers of a region, ascending

/// The layers on every path to the end of the graph, and the number of these layers before each layer.
struct Crossings {
  // The layers that are on every path, in the order in which paths reach them.
  std::vector<std::int32_t> layers;
  // For each layer of the graph, how many of `layers` are on the longest path to it.
  std::vector<std::int32_t> met;
};

Crossings crossings_of(const LayerGraph& graph, const std::vector<bool>& crossed) {
  Crossings found{.layers = {}, .met = std::vector<std::int32_t>(graph.layers.size(), 0)};
  for (std::size_t layer = 0; layer < graph.layers.size(); ++layer) {
    for (const std::int32_t input : graph.layers[layer].inputs) {
      const auto read = static_cast<std::size_t>(input);
      found.met[layer] = std::max(found.met[layer], found.met[read] + (crossed[read] ? 1 : 0));
    }
    if (crossed[layer]) found.layers.push_back(static_cast<std::int32_t>(layer));
  }
  return found;
}

/// Returns the regions of the graph. A region lies between two consecutive layers that are on every path.
/// Layers on no path to the end are merged with the second of these layers.
std::vector<Region> regions_of(const LayerGraph& graph, LayerGroups& groups) {
  const std::vector<bool> leads = leading_to_end(graph);
  const std::vector<bool> crossed = on_every_path(graph, leads);
  const Crossings crossings = crossings_of(graph, crossed);
  std::map<std::int32_t, Region> regions;
  for (std::size_t layer = 0; layer < graph.layers.size(); ++layer) {
    const std::int32_t met = crossings.met[layer];
    if (!leads[layer]) {
      groups.put(static_cast<std::int32_t>(layer), crossings.layers[static_cast<std::size_t>(met)]);
    } else if (!crossed[layer]) {
      regions[met].push_back(static_cast<std::int32_t>(layer));
    }
  }
  std::vector<Region> found;
  found.reserve(regions.size());
  for (auto& [number, region] : regions) found.push_back(std::move(region));
  return found;
}

/// Returns true if the groups of the region have more downsets than the region's part of the limit.
bool is_wide(const LayerGraph& graph, const Region& region, const LayerGroups& groups) {
  const std::size_t most = std::max(kWide, kMostOfGraph * region.size() / graph.layers.size());
  LayerGraph alone;
  std::map<std::int32_t, std::int32_t> place;
  for (const std::int32_t layer : region) {
    const std::int32_t group = groups.of(layer);
    if (place.contains(group)) continue;
    place[group] = static_cast<std::int32_t>(alone.layers.size());
    alone.layers.push_back({.name = "", .forward_ns = 1, .backward_ns = 1, .inputs = {}});
  }
  if (alone.layers.size() >= most) return true;
  for (const std::int32_t layer : region) {
    Layer& mine = alone.layers[static_cast<std::size_t>(place[groups.of(layer)])];
    for (const std::int32_t input : graph.layers[static_cast<std::size_t>(layer)].inputs) {
      const auto known = place.find(groups.of(input));
      if (known != place.end() && known->first != groups.of(layer)) mine.inputs.push_back(known->second);
    }
    std::ranges::sort(mine.inputs);
    mine.inputs.erase(std::ranges::unique(mine.inputs).begin(), mine.inputs.end());
  }
  return !downsets_of(alone, most).has_value();
}

std::set<std::int32_t> groups_in(const Region& region, const LayerGroups& groups) {
  std::set<std::int32_t> found;
  for (const std::int32_t layer : region) found.insert(groups.of(layer));
  return found;
}

/// Merges two groups of the region that are in series or in parallel. Returns false if there is no such
/// pair.
bool reduce(const Region& region, LayerGroups& groups) {
  const LayerGroups::Neighbours around = groups.neighbours();
  const std::set<std::int32_t> inside = groups_in(region, groups);
  for (const std::int32_t group : inside) {
    const std::set<std::int32_t>& readers = around.readers.at(group);
    if (readers.size() != 1 || !inside.contains(*readers.begin())) continue;
    // Two groups in series: only one other group reads this group, and that one reads nothing else.
    if (around.inputs.at(*readers.begin()).size() != 1) continue;
    groups.merge(group, *readers.begin());
    return true;
  }
  // Two groups in parallel: both read the same groups, and the same groups read both.
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

/// Merges the layers of a region that have equal height. The height of a layer is the length of the longest
/// path to the region's end.
void merge_by_height(const LayerGraph& graph, const Region& region, LayerGroups& groups) {
  std::map<std::int32_t, std::int32_t> height;  // the height of each layer
  for (const std::int32_t layer : region) height[layer] = 0;
  // The loop runs from the end of the region, so that the height of a layer is final before it is used.
  std::map<std::int32_t, std::int32_t> last;  // the last layer of each height
  for (auto layer = region.rbegin(); layer != region.rend(); ++layer) {
    for (const std::int32_t input : graph.layers[static_cast<std::size_t>(*layer)].inputs) {
      const auto inside = height.find(input);
      if (inside != height.end()) inside->second = std::max(inside->second, height[*layer] + 1);
    }
    groups.put(*layer, last.try_emplace(height[*layer], *layer).first->second);
  }
}

/// Returns a layer that replaces a group. Its figures are sums over the group. Its output contains all
/// outputs that layers outside the group read.
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
    sum.recomputed += layer.recomputed;
    if (is_read_outside[static_cast<std::size_t>(member)]) sum.output += layer.output;
    kept += layer.kept_bytes();
    for (const std::int32_t input : layer.inputs)
      if (groups.of(input) != groups.of(member)) sum.inputs.push_back(input);
  }
  sum.kept = kept;
  // Recomputed bytes are a part of the transient bytes, so the transient bytes must not be smaller.
  sum.transient = std::max(sum.transient, sum.recomputed);
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

/// Returns the groups in an order in which each group follows its inputs.
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
  std::map<std::int32_t, std::int32_t> place;  // the index in the merged graph for each group
  for (const std::int32_t group : order_of(groups)) {
    // order_of() lists a group after all its inputs, so the inputs are already in `place`.
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
  for (const Region& region : regions_of(graph, groups)) {
    if (!is_wide(graph, region, groups)) continue;
    // The loop stops as early as possible, because each step removes possible cuts.
    while (is_wide(graph, region, groups) && reduce(region, groups)) {
    }
    if (is_wide(graph, region, groups)) merge_by_height(graph, region, groups);
  }
  return graph_of(graph, groups);
}

}  // namespace penstock
