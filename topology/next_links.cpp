// Computes the best paths to each destination with Dijkstra's algorithm (Boost.Graph) on the reversed links.
//
// A path's distance is the triple (latency, number of links, smallest bandwidth), compared in this order. An
// additional link increases the number of links and never improves the other two. So any end of a best path
// is also a best path, as Dijkstra's algorithm requires. Several paths may have equal distances. Then a
// second pass decides: each node uses the link with the lowest number that gives the node's distance.
//
// If all devices have direct links to the destination and no detour can be better, only these links are
// compared. In a cluster with n(n-1) links, searches would take a time proportional to n^3.
//
// Tests: tests/topology/route_test.cpp, which also compares with all paths.

#include "topology/cluster.hpp"

#include <algorithm>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/iterator/counting_iterator.hpp>
#include <boost/iterator/transform_iterator.hpp>
#include <boost/property_map/property_map.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace penstock {
namespace {

constexpr auto kFarthest = std::numeric_limits<std::int64_t>::max();

/// The distance of a node from the destination along a path: its latency, its number of links and its
/// smallest bandwidth.
struct Distance {
  std::int64_t latency_ns = 0;
  std::int64_t links = 0;
  double bytes_per_second = kUnlimitedBandwidth;

  friend bool operator==(const Distance&, const Distance&) = default;
};
/// The distance of a node that has no path to the destination. No path has so many links, so this distance
/// differs from the distance of any path.
constexpr Distance kUnreachable{kFarthest, kFarthest, 0};

struct IsCloser {
  bool operator()(const Distance& a, const Distance& b) const {
    return std::tuple(a.latency_ns, a.links, -a.bytes_per_second) <
           std::tuple(b.latency_ns, b.links, -b.bytes_per_second);
  }
};

/// Returns the distance of a path that begins with `link` and continues with a path of distance `rest`.
Distance before(const Link& link, const Distance& rest) {
  return {saturating_sum_ns(rest.latency_ns, link.latency_ns), rest.links + 1,
          std::min(rest.bytes_per_second, link.bytes_per_second)};
}

/// An edge of the graph that is searched: a link in its reverse direction.
struct BackwardLink {
  std::int32_t link = 0;
};
using BackwardGraph = boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, BackwardLink>;

/// Returns a graph in which the out-edges of a node are the links that end at it. One search from a
/// destination then reaches all nodes.
BackwardGraph backward_graph(std::span<const Link> links, std::int32_t node_count) {
  const auto ends = [links](std::int32_t link) { return std::pair(links[link].to, links[link].from); };
  const auto numbered = [](std::int32_t link) { return BackwardLink{link}; };
  const boost::counting_iterator<std::int32_t> first(0);
  const boost::counting_iterator<std::int32_t> last(static_cast<std::int32_t>(links.size()));
  return {boost::edges_are_unsorted_multi_pass, boost::make_transform_iterator(first, ends),
          boost::make_transform_iterator(last, ends), boost::make_transform_iterator(first, numbered),
          static_cast<std::size_t>(node_count)};
}

/// The links and the graph, which the searches for all destinations share.
struct Network {
  std::span<const Link> links;
  std::int32_t device_count = 0;
  std::int32_t node_count = 0;
  BackwardGraph backward;
  std::vector<std::int64_t> least_latency_out;  // least latency of the outgoing links of each node
  std::vector<std::int64_t> least_latency_in;   // least latency of the incoming links of each node
};

Network network(std::span<const Link> links, std::int32_t device_count, std::int32_t node_count) {
  Network result{links, device_count, node_count, backward_graph(links, node_count), {}, {}};
  result.least_latency_out.assign(node_count, kFarthest);
  result.least_latency_in.assign(node_count, kFarthest);
  for (const auto& link : links) {
    auto& out = result.least_latency_out[link.from];
    auto& in = result.least_latency_in[link.to];
    out = std::min(out, link.latency_ns);
    in = std::min(in, link.latency_ns);
  }
  return result;
}

/// Returns the distance of each node to `destination`, found by Dijkstra's algorithm.
std::vector<Distance> distances_to(const Network& network, std::int32_t destination) {
  std::vector<Distance> distances(network.node_count);
  boost::dijkstra_shortest_paths(network.backward, static_cast<std::size_t>(destination),
                                 boost::predecessor_map(boost::dummy_property_map())
                                     .distance_map(boost::make_iterator_property_map(
                                         distances.begin(), get(boost::vertex_index, network.backward)))
                                     .weight_map(get(&BackwardLink::link, network.backward))
                                     .distance_compare(IsCloser{})
                                     .distance_combine([&network](const Distance& rest, std::int32_t link) {
                                       return before(network.links[link], rest);
                                     })
                                     .distance_inf(kUnreachable)
                                     .distance_zero(Distance{}));
  return distances;
}

/// Returns the first link of each node's best path to `destination`. Finds the paths by Dijkstra's
/// algorithm.
std::vector<std::int32_t> searched_row(const Network& network, std::int32_t destination) {
  const auto distances = distances_to(network, destination);
  std::vector<std::int32_t> row(network.node_count, kNoLink);
  // Links are visited in ascending order, so the first link that gives the distance has the lowest number.
  for (std::int32_t number = 0; number < std::ssize(network.links); ++number) {
    const auto& link = network.links[number];
    const auto& rest = distances[link.to];
    if (row[link.from] != kNoLink || rest == kUnreachable) continue;
    if (before(link, rest) == distances[link.from]) row[link.from] = number;
  }
  return row;
}

/// Returns the best direct link of each node to `destination`. Returns nothing if a device may have a
/// better path over other nodes. In that case searched_row() is needed. The latency of such a path is at
/// least that of one link out of the device and one link into the destination.
std::optional<std::vector<std::int32_t>> direct_row(const Network& network, std::int32_t destination) {
  std::vector<std::int32_t> row(network.node_count, kNoLink);
  // Several links between the same two nodes are compared by the rule of Cluster::route().
  const auto order = [&](std::int32_t number) {
    const auto& link = network.links[number];
    return std::tuple(link.latency_ns, -link.bytes_per_second, number);
  };
  const auto [first, last] = out_edges(static_cast<std::size_t>(destination), network.backward);
  for (auto edge = first; edge != last; ++edge) {
    const auto number = network.backward[*edge].link;
    auto& best = row[network.links[number].from];
    if (best == kNoLink || order(number) < order(best)) best = number;
  }
  for (std::int32_t device = 0; device < network.device_count; ++device) {
    if (device == destination) continue;
    const auto detour_ns =
        saturating_sum_ns(network.least_latency_out[device], network.least_latency_in[destination]);
    // If the latencies are equal, the direct link is better, because it has fewer links.
    if (row[device] == kNoLink || network.links[row[device]].latency_ns > detour_ns) return std::nullopt;
  }
  return row;
}

}  // namespace

std::vector<std::int32_t> next_links(std::span<const Link> links, std::int32_t device_count,
                                     std::int32_t node_count) {
  const auto searched = network(links, device_count, node_count);
  std::vector<std::int32_t> table;
  table.reserve(static_cast<std::size_t>(device_count) * static_cast<std::size_t>(node_count));
  for (std::int32_t destination = 0; destination < device_count; ++destination) {
    auto row = direct_row(searched, destination);
    if (!row) row = searched_row(searched, destination);
    table.insert(table.end(), row->begin(), row->end());
  }
  return table;
}

}  // namespace penstock
