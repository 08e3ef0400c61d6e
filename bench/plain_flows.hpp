#pragma once
// Flows over shared links in the simplest form. Benchmarks compare the speed of sim/network with it, and
// tests compare the results.

#include <cstdint>
#include <span>
#include <vector>

#include "schedules/ir/action.hpp"
#include "topology/cluster.hpp"

namespace penstock {

/// Returns max-min fair rates, computed by progressive filling. `capacities` has the bytes a second of each
/// link, which are > 0 and may be infinite. For each flow, `routes` has the links that it uses, each at most
/// once.
std::vector<double> plain_max_min_share(std::span<const double> capacities,
                                        std::span<const std::vector<std::int32_t>> routes);

/// A flow between two devices.
struct PlainFlow {
  Ns start_ns = 0;
  std::int32_t from = 0;
  std::int32_t to = 0;
  Bytes bytes = 0;
};

/// Returns the end of each flow, rounded up to nanoseconds. `flows` must be in the order of their starts.
std::vector<Ns> plain_flow_ends(const Cluster& cluster, std::span<const PlainFlow> flows);

}  // namespace penstock
