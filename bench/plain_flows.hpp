#pragma once
// Flows over shared links as one writes them down first: what sim/network is set against, in speed by the
// benchmarks, in its results by the tests.

#include <cstdint>
#include <span>
#include <vector>

#include "schedules/ir/action.hpp"
#include "topology/cluster.hpp"

namespace penstock {

/// Max-min fair rates by progressive filling. `capacities`: bytes per second of each link, > 0, may be
/// infinite. `routes`: for each flow the links that it crosses, each at most once.
std::vector<double> plain_max_min_share(std::span<const double> capacities,
                                        std::span<const std::vector<std::int32_t>> routes);

/// A flow between two devices.
struct PlainFlow {
  Ns start_ns = 0;
  std::int32_t from = 0;
  std::int32_t to = 0;
  Bytes bytes = 0;
};

/// When each of the flows ends, rounded up to ns. They are given in the order of their starts.
std::vector<Ns> plain_flow_ends(const Cluster& cluster, std::span<const PlainFlow> flows);

}  // namespace penstock
