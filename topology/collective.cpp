// Prices collectives by the ring algorithm. A ring of n ranks cuts the buffer into n parts. Reduce-scatter
// takes n-1 steps, in each of which every rank sends one part to its neighbour and adds the part that it
// receives. All-gather takes n-1 steps that send the finished parts round. All-reduce is both, one after the
// other. n = 3, parts a b c, rank 0 > 1 > 2 > 0:
//
//   step 1    0 >a> 1    1 >b> 2    2 >c> 0
//   step 2    0 >c> 1    1 >a> 2    2 >b> 0      now a is complete on rank 2, b on 0, c on 1
//   step 3    0 >b> 1    1 >c> 2    2 >a> 0
//   step 4    0 >a> 1    1 >b> 2    2 >c> 0      now all parts are on all ranks
//
// Tested by collective_test.cpp.

#include "topology/collective.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "topology/cluster.hpp"
#include "topology/next_links.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {
namespace {

/// Returns how many steps a collective takes, in each of which an n-th of the buffer goes over each hop.
std::int64_t steps(Collective collective, std::int64_t ranks) {
  switch (collective) {
    case Collective::all_reduce:
      return 2 * (ranks - 1);
    case Collective::reduce_scatter:
    case Collective::all_gather:
      return ranks - 1;
  }
  return 0;
}

/// Returns the distance to `to`; a smaller one is nearer.
auto distance(const Cluster& cluster, std::int32_t from, std::int32_t to) {
  const Route route = cluster.route(from, to);
  return std::tuple(-route.bytes_per_second, route.latency_ns, route.links.size());
}

/// Returns a ring that begins with the first given device and goes to the nearest remaining device each time,
/// the first given one on a tie.
std::vector<std::int32_t> from_nearest_to_nearest(const Cluster& cluster,
                                                  std::span<const std::int32_t> devices) {
  std::vector<std::int32_t> ring(devices.begin(), devices.end());
  // Devices before `next` are the ring so far. The others are the remaining devices in the given order.
  for (auto next = ring.begin() + 1; next != ring.end(); ++next) {
    const std::int32_t here = *(next - 1);
    const auto nearest = std::ranges::min_element(
        next, ring.end(), {}, [&](std::int32_t device) { return distance(cluster, here, device); });
    std::rotate(next, nearest, nearest + 1);
  }
  return ring;
}

/// Returns the seconds that the busiest link needs if every hop of the ring sends one byte at the same time.
double busiest_link(const Cluster& cluster, std::span<const std::int32_t> ring) {
  std::map<LinkNumber, double> load;
  double most = 0;
  for (std::size_t i = 0; i < ring.size(); ++i) {
    for (const LinkNumber link : cluster.route(ring[i], ring[(i + 1) % ring.size()]).links) {
      double& seconds = load[link];
      seconds += 1 / cluster.link_bytes_per_second(link);
      most = std::max(most, seconds);
    }
  }
  return most;
}

}  // namespace

RingCost ring_cost(const Cluster& cluster, std::span<const std::int32_t> devices, Collective collective,
                   std::int64_t bytes) {
  assert(bytes >= 0 && "no buffer has less than 0 bytes");
  const auto ranks = std::ssize(devices);
  RingCost cost;
  if (ranks < 2) return cost;
  const auto count = steps(collective, ranks);
  // All hops send at the same time, so the slowest one determines the time of each step.
  std::int64_t latency_ns = 0;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const auto route = cluster.route(devices[i], devices[(i + 1) % devices.size()]);
    cost.bytes_per_second = std::min(cost.bytes_per_second, route.bytes_per_second);
    latency_ns = std::max(latency_ns, route.latency_ns);
  }
  cost.bytes_per_link = saturated((static_cast<Wide>(count) * bytes + ranks - 1) / ranks);
  cost.latency_ns = saturated(static_cast<Wide>(count) * latency_ns);
  cost.duration_ns =
      saturating_sum_ns(serialization_ns(cost.bytes_per_link, cost.bytes_per_second), cost.latency_ns);
  return cost;
}

std::vector<std::int32_t> ring_order(const Cluster& cluster, std::span<const std::int32_t> devices) {
  std::vector<std::int32_t> given(devices.begin(), devices.end());
  // Two devices have only one ring.
  if (devices.size() < 3) return given;
  const double busiest = busiest_link(cluster, given);
  if (busiest <= 1 / cluster.most_bytes_per_second()) return given;  // no ring is better
  std::vector<std::int32_t> nearest = from_nearest_to_nearest(cluster, devices);
  return busiest_link(cluster, nearest) < busiest ? nearest : given;
}

}  // namespace penstock
