#pragma once
// Routes in the form in which tests state them.

#include <cstdint>
#include <string>
#include <vector>

#include "topology/cluster.hpp"

namespace penstock {

/// Returns the names of a route's links in order.
inline std::vector<std::string> way(const Cluster& cluster, std::int32_t from, std::int32_t to) {
  std::vector<std::string> names;
  for (const auto link : cluster.route(from, to).links) names.push_back(cluster.links()[link].name);
  return names;
}

}  // namespace penstock
