#pragma once
// Flows over shared links in the simplest form. Benchmarks compare the speed of sim/network with it, and
// tests compare the results.

#include <cstdint>
#include <span>
#include <vector>

#include "schedules/ir/action.hpp"
#include "topology/cluster.hpp"

namespace penstock {

/// Returns max-min fair rates by progressive filling. `capacities` are bytes per second of each link, > 0,
/// and may be infinite. `routes` has for each flow the links that it crosses, each at most once.
std::vector<double> plain_max_min_share(std::span<const double> capacities,
                                        std::span<const std::vector<std::int32_t>> routes);

/// A flow between two devices.
struct PlainFlow {
  Ns start_ns = 0;
  std::int32_t from = 0;
  std::int32_t to = 0;
  Bytes bytes = 0;
};

/// Returns when each flow ends, rounded up to ns. `flows` must be in the order of their starts.
std::vector<Ns> plain_flow_ends(const Cluster& cluster, std::span<const PlainFlow> flows);

}  // namespace penstock
