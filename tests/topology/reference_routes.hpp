#pragma once
// Slow and obvious routes to hold Cluster::route against: Floyd and Warshall's three loops over all
// nodes, then a walk that tries the links in order.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "topology/cluster.hpp"

namespace penstock::reference {

/// Latency, number of links and narrowest bandwidth of the best way; nothing where there is none.
struct Way {
  std::int64_t latency_ns = 0;
  std::int64_t links = 0;
  double bytes_per_second = kUnlimitedBandwidth;

  friend bool operator==(const Way&, const Way&) = default;
};
using Ways = std::vector<std::vector<std::optional<Way>>>;

inline std::optional<Way> joined(const std::optional<Way>& a, const std::optional<Way>& b) {
  if (!a || !b) return std::nullopt;
  return Way{a->latency_ns + b->latency_ns, a->links + b->links,
             std::min(a->bytes_per_second, b->bytes_per_second)};
}

inline std::optional<Way> better(const std::optional<Way>& a, const std::optional<Way>& b) {
  if (!a || !b) return a ? a : b;
  const auto order = [](const Way& way) {
    return std::tuple(way.latency_ns, way.links, -way.bytes_per_second);
  };
  return order(*b) < order(*a) ? b : a;
}

inline Way way_of(const Link& link) { return {link.latency_ns, 1, link.bytes_per_second}; }

/// The best way of every ordered pair of nodes.
inline Ways best_ways(std::span<const Link> links, std::int32_t nodes) {
  Ways best(nodes, std::vector<std::optional<Way>>(nodes));
  for (std::int32_t node = 0; node < nodes; ++node) best[node][node] = Way{};
  for (const auto& link : links) best[link.from][link.to] = better(best[link.from][link.to], way_of(link));
  for (std::int32_t via = 0; via < nodes; ++via) {
    for (std::int32_t from = 0; from < nodes; ++from) {
      for (std::int32_t to = 0; to < nodes; ++to) {
        best[from][to] = better(best[from][to], joined(best[from][via], best[via][to]));
      }
    }
  }
  return best;
}

/// The route that Cluster::route promises, or nothing where no way leads.
inline std::optional<Route> route(std::span<const Link> links, const Ways& best, std::int32_t from,
                                  std::int32_t to) {
  const auto& way = best[from][to];
  if (!way) return std::nullopt;
  Route route{{}, way->bytes_per_second, way->latency_ns};
  for (auto node = from; node != to;) {
    const auto found = std::ranges::find_if(links, [&](const Link& link) {
      return link.from == node && joined(way_of(link), best[link.to][to]) == best[node][to];
    });
    route.links.push_back(static_cast<std::int32_t>(found - links.begin()));
    node = found->to;
  }
  return route;
}

}  // namespace penstock::reference
