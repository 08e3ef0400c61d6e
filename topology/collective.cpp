// A ring of n ranks cuts the buffer into n parts. Reduce-scatter: in each of n-1 steps every rank passes
// one part on to its neighbour and adds the part that it gets; all-gather: n-1 steps more that pass the
// finished parts round. All-reduce is the two in a row. n = 3, parts a b c, rank 0 > 1 > 2 > 0:
//
//   step 1    0 >a> 1    1 >b> 2    2 >c> 0
//   step 2    0 >c> 1    1 >a> 2    2 >b> 0      now a is whole on rank 2, b on 0, c on 1
//   step 3    0 >b> 1    1 >c> 2    2 >a> 0
//   step 4    0 >a> 1    1 >b> 2    2 >c> 0      and everything everywhere

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

/// How often every rank passes a part on; so many n-th parts of the buffer go over each hop.
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

/// How near `to` is: routes with less come first.
auto distance(const Cluster& cluster, std::int32_t from, std::int32_t to) {
  const Route route = cluster.route(from, to);
  return std::tuple(-route.bytes_per_second, route.latency_ns, route.links.size());
}

/// Begins with the first device that is given; of equally near ones the first that is given is next.
std::vector<std::int32_t> from_nearest_to_nearest(const Cluster& cluster,
                                                  std::span<const std::int32_t> devices) {
  std::vector<std::int32_t> ring(devices.begin(), devices.end());
  // What lies before `next` is the ring so far, what follows the devices that are left, in the given order.
  for (auto next = ring.begin() + 1; next != ring.end(); ++next) {
    const std::int32_t here = *(next - 1);
    const auto nearest = std::ranges::min_element(
        next, ring.end(), {}, [&](std::int32_t device) { return distance(cluster, here, device); });
    std::rotate(next, nearest, nearest + 1);
  }
  return ring;
}

/// Seconds on the link that has most to carry where every hop of the ring carries a byte at once.
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
  // All hops work in step: the slowest one sets the pace of each.
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
  // Of two devices there is one ring.
  if (devices.size() < 3) return given;
  const double busiest = busiest_link(cluster, given);
  if (busiest <= 1 / cluster.most_bytes_per_second()) return given;  // no ring has less on a link
  std::vector<std::int32_t> nearest = from_nearest_to_nearest(cluster, devices);
  return busiest_link(cluster, nearest) < busiest ? nearest : given;
}

}  // namespace penstock
