// Computes the costs of collectives by the ring algorithm. A ring of n ranks divides the buffer into n parts.
// A reduce-scatter takes n-1 steps. In each step, every rank sends a part to its neighbour, and adds the part
// that it receives to its own. An all-gather also takes n-1 steps, in which the finished parts go around the
// ring. An all-reduce is a reduce-scatter and then an all-gather. With n = 3, parts a b c, and the ring 0 > 1
// > 2 > 0:
//
//   step 1    0 >a> 1    1 >b> 2    2 >c> 0
//   step 2    0 >c> 1    1 >a> 2    2 >b> 0      now a is complete on rank 2, b on 0, c on 1
//   step 3    0 >b> 1    1 >c> 2    2 >a> 0
//   step 4    0 >a> 1    1 >b> 2    2 >c> 0      now all parts are on all ranks
//
// On a torus of 2 x 3 devices, all rings of a dimension work at the same time:
//
//   phase 1   reduce-scatter down the 3 columns, all bytes      2 parts, one stays with each row
//   phase 2   reduce-scatter along the 2 rows, a half           3 parts of it, one stays with each device
//   phase 3   all-gather along the 2 rows, a half
//   phase 4   all-gather down the 3 columns, all bytes
//
// Tested by collective_test.cpp and torus_test.cpp.

#include "topology/collective.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "topology/cluster.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {
namespace {

/// Returns the number of steps of a collective on a ring of n ranks. In each step, 1/n of the buffer is
/// sent over each hop.
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

/// Returns a tuple that measures the distance from `from` to `to`. The device with the smaller tuple is
/// nearer.
auto distance(const Cluster& cluster, std::int32_t from, std::int32_t to) {
  const Route route = cluster.route(from, to);
  return std::tuple(-route.bytes_per_second, route.latency_ns, route.links.size());
}

/// Returns the devices in the order of a ring. It begins with the first of `devices` and always continues
/// with the nearest remaining device. If several devices are equally near, the first of them in the given
/// order is next.
std::vector<std::int32_t> from_nearest_to_nearest(const Cluster& cluster,
                                                  std::span<const std::int32_t> devices) {
  std::vector<std::int32_t> ring(devices.begin(), devices.end());
  // The devices before `next` already have their order in the ring, and the others still have the given
  // order.
  for (auto next = ring.begin() + 1; next != ring.end(); ++next) {
    const std::int32_t here = *(next - 1);
    const auto nearest = std::ranges::min_element(
        next, ring.end(), {}, [&](std::int32_t device) { return distance(cluster, here, device); });
    std::rotate(next, nearest, nearest + 1);
  }
  return ring;
}

/// Returns the seconds that the busiest link needs if all hops of the ring send one byte at the same time.
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

/// The rings in one dimension of a torus. Each device of the group is in exactly one of them.
using DimensionRings = std::vector<std::vector<std::int32_t>>;

/// Returns the coordinates of a device on a grid with these dimensions.
std::vector<std::int32_t> place_of(std::int32_t device, const std::vector<std::int32_t>& dimensions) {
  std::vector<std::int32_t> place(dimensions.size());
  for (std::size_t i = dimensions.size(); i-- > 0; device /= dimensions[i]) place[i] = device % dimensions[i];
  return place;
}

/// Returns the rings in each dimension in which the devices of the group have different coordinates.
/// Returns an empty list if the group is not a complete grid.
std::vector<DimensionRings> grid_rings(std::span<const std::int32_t> devices,
                                       const std::vector<std::int32_t>& dimensions) {
  std::vector<std::set<std::int32_t>> sides(dimensions.size());
  // The coordinates and the number of each device, in the order of the grid.
  std::vector<std::pair<std::vector<std::int32_t>, std::int32_t>> places;
  for (const std::int32_t device : devices) {
    places.emplace_back(place_of(device, dimensions), device);
    for (std::size_t i = 0; i < sides.size(); ++i) sides[i].insert(places.back().first[i]);
  }
  std::ranges::sort(places);
  std::size_t all = 1;
  for (const std::set<std::int32_t>& side : sides) all *= side.size();
  if (all != devices.size()) return {};
  std::vector<DimensionRings> rings;
  for (std::size_t i = 0; i < sides.size(); ++i) {
    if (sides[i].size() < 2) continue;
    // The devices of a ring differ only in this coordinate, and are in its ascending order.
    std::map<std::vector<std::int32_t>, std::vector<std::int32_t>> lines;
    for (auto [place, device] : places) {
      place[i] = 0;
      lines[place].push_back(device);
    }
    DimensionRings& of_dimension = rings.emplace_back();
    for (auto& [place, line] : lines) of_dimension.push_back(std::move(line));
  }
  return rings;
}

/// Returns the devices of a grid on a torus in an order that alternates its direction from line to line.
/// Neighbours in the ring are then neighbours on the torus. If the first dimension is even, this is also true
/// for the first and the last device:
///
///   0 > 1 > 2 > 3
///               v
///   7 < 6 < 5 < 4
std::vector<std::int32_t> to_and_fro(std::span<const std::int32_t> devices, const Torus& torus) {
  std::vector<std::pair<std::int64_t, std::int32_t>> order;
  for (const std::int32_t device : devices) {
    const std::vector<std::int32_t> place = place_of(device, torus.dimensions);
    std::int64_t number = 0;
    for (std::size_t i = 0; i < place.size(); ++i) {
      const std::int32_t size = torus.dimensions[i];
      // The direction of each line is opposite to that of the line before.
      number = number * size + (number % 2 == 0 ? place[i] : size - 1 - place[i]);
    }
    order.emplace_back(number, device);
  }
  std::ranges::sort(order);
  std::vector<std::int32_t> ring;
  ring.reserve(order.size());
  for (const auto& [number, device] : order) ring.push_back(device);
  return ring;
}

/// Appends a phase in which rings of equal length work at the same time. The slowest ring determines the
/// duration of the phase.
void add_phase(CollectiveRoute& route, const Cluster& cluster, const DimensionRings& rings,
               Collective collective, std::int64_t bytes) {
  RingCost slowest;
  CollectivePhase phase;
  for (const std::vector<std::int32_t>& ring : rings) {
    const RingCost cost = ring_cost(cluster, ring, collective, bytes);
    slowest = {.bytes_per_link = cost.bytes_per_link,
               .bytes_per_second = std::min(slowest.bytes_per_second, cost.bytes_per_second),
               .latency_ns = std::max(slowest.latency_ns, cost.latency_ns),
               .duration_ns = std::max(slowest.duration_ns, cost.duration_ns)};
    for (std::size_t i = 0; i < ring.size(); ++i)
      phase.hops.push_back({ring[i], ring[(i + 1) % ring.size()], cost.bytes_per_link});
  }
  phase.latency_ns = slowest.latency_ns;
  route.phases.push_back(std::move(phase));
  RingCost& sum = route.cost;
  sum.bytes_per_link = saturating_sum_ns(sum.bytes_per_link, slowest.bytes_per_link);
  sum.bytes_per_second = std::min(sum.bytes_per_second, slowest.bytes_per_second);
  sum.latency_ns = saturating_sum_ns(sum.latency_ns, slowest.latency_ns);
  sum.duration_ns = saturating_sum_ns(sum.duration_ns, slowest.duration_ns);
}

}  // namespace

CollectiveRoute collective_route(const Cluster& cluster, std::span<const std::int32_t> ring,
                                 Collective collective, std::int64_t bytes) {
  CollectiveRoute route;
  if (ring.size() < 2) return route;
  std::vector<DimensionRings> dimensions;
  if (cluster.torus() && cluster.torus()->collectives == TorusCollectives::dimensions)
    dimensions = grid_rings(ring, cluster.torus()->dimensions);
  if (dimensions.empty()) {
    add_phase(route, cluster, {{ring.begin(), ring.end()}}, collective, bytes);
    return route;
  }
  // `held` has, for each dimension, the bytes that each of its rings processes. From one dimension to the
  // next, the bytes are divided by the length of the rings.
  std::vector<std::int64_t> held = {bytes};
  for (const DimensionRings& rings : dimensions) {
    const auto devices = std::ssize(rings.front());
    held.push_back((held.back() + devices - 1) / devices);
  }
  if (collective != Collective::all_gather) {
    for (std::size_t i = 0; i < dimensions.size(); ++i)
      add_phase(route, cluster, dimensions[i], Collective::reduce_scatter, held[i]);
  }
  if (collective != Collective::reduce_scatter) {
    for (std::size_t i = dimensions.size(); i-- > 0;)
      add_phase(route, cluster, dimensions[i], Collective::all_gather, held[i]);
  }
  return route;
}

RingCost ring_cost(const Cluster& cluster, std::span<const std::int32_t> devices, Collective collective,
                   std::int64_t bytes) {
  assert(bytes >= 0 && "no buffer has less than 0 bytes");
  const auto ranks = std::ssize(devices);
  RingCost cost;
  if (ranks < 2) return cost;
  const auto count = steps(collective, ranks);
  // All hops send at the same time, so the slowest hop determines the time of each step.
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
  // Two devices can form only one ring, so there is no other order to try.
  if (devices.size() < 3) return given;
  const double busiest = busiest_link(cluster, given);
  if (cluster.torus()) {
    // If both orders load the busiest link equally, the other order is better, because the given one may use
    // two links at the end of a row.
    std::vector<std::int32_t> other = to_and_fro(devices, *cluster.torus());
    return busiest_link(cluster, other) <= busiest ? other : given;
  }
  if (busiest <= 1 / cluster.most_bytes_per_second()) return given;  // no other ring can be better
  std::vector<std::int32_t> nearest = from_nearest_to_nearest(cluster, devices);
  return busiest_link(cluster, nearest) < busiest ? nearest : given;
}

}  // namespace penstock
