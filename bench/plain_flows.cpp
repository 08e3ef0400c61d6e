// Progressive filling over the links in use (Bertsekas and Gallager, Data Networks, section 6.5.2). All rates
// grow equally until a link is full. The rates of its flows are then fixed, and the other rates continue to
// grow. At every start and end of a flow, all flows are advanced and all rates are computed again.

#include "bench/plain_flows.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// One link during the computation of rates.
struct LinkLoad {
  double free = kInfinite;   // bytes a second that are not assigned to flows with fixed rates
  std::int32_t unfixed = 0;  // number of the link's flows without a fixed rate
};

/// Returns the equal rate of all unfixed flows at which the link would be full.
double fair_rate(const LinkLoad& load) { return load.unfixed == 0 ? kInfinite : load.free / load.unfixed; }

struct MovingFlow {
  std::size_t number = 0;  // index in the list of all flows
  std::vector<std::int32_t> links;
  double left_bytes = 0;
  double bytes_per_second = 0;
  Ns end_ns = 0;
};

class PlainNetwork {
 public:
  PlainNetwork(const Cluster& cluster, std::span<const PlainFlow> flows)
      : cluster_(cluster), flows_(flows), ends_(flows.size(), 0) {
    for (const Link& link : cluster.links()) capacities_.push_back(link.bytes_per_second);
  }

  std::vector<Ns> run() {
    for (std::size_t next = 0; next < flows_.size() || !moving_.empty();) {
      const auto first = std::ranges::min_element(moving_, {}, &MovingFlow::end_ns);
      const bool ends =
          first != moving_.end() && (next == flows_.size() || first->end_ns <= flows_[next].start_ns);
      if (ends) {
        advance(first->end_ns);
        ends_[first->number] = first->end_ns;
        moving_.erase(first);
      } else {
        advance(flows_[next].start_ns);
        start(next++);
      }
      share();
    }
    return ends_;
  }

 private:
  void start(std::size_t number) {
    const PlainFlow& flow = flows_[number];
    const Route route = cluster_.route(flow.from, flow.to);
    moving_.push_back({.number = number,
                       .links = {route.links.begin(), route.links.end()},
                       .left_bytes = static_cast<double>(flow.bytes)});
  }

  /// Advances all moving flows at their rates up to `now`.
  void advance(Ns now) {
    const double seconds = static_cast<double>(now - now_) * 1e-9;
    now_ = now;
    if (seconds == 0) return;
    for (MovingFlow& flow : moving_)
      flow.left_bytes = std::max(0.0, flow.left_bytes - seconds * flow.bytes_per_second);
  }

  /// Computes new rates for all moving flows, and the end of each flow with its new rate.
  void share() {
    std::vector<std::vector<std::int32_t>> routes;
    routes.reserve(moving_.size());
    for (const MovingFlow& flow : moving_) routes.push_back(flow.links);
    const std::vector<double> rates = plain_max_min_share(capacities_, routes);
    for (std::size_t i = 0; i < moving_.size(); ++i) {
      MovingFlow& flow = moving_[i];
      flow.bytes_per_second = rates[i];
      // The end is rounded up to whole nanoseconds. A thousandth of a nanosecond is subtracted first, because
      // it is an error of the division.
      flow.end_ns = now_ + static_cast<Ns>(std::ceil(flow.left_bytes / rates[i] * 1e9 - 1e-3));
    }
  }

  const Cluster& cluster_;
  std::span<const PlainFlow> flows_;
  std::vector<Ns> ends_;
  std::vector<double> capacities_;
  std::vector<MovingFlow> moving_;
  Ns now_ = 0;
};

}  // namespace

std::vector<double> plain_max_min_share(std::span<const double> capacities,
                                        std::span<const std::vector<std::int32_t>> routes) {
  std::vector<LinkLoad> loads(capacities.size());
  for (std::size_t link = 0; link < capacities.size(); ++link) loads[link].free = capacities[link];
  for (const std::vector<std::int32_t>& route : routes) {
    for (const std::int32_t link : route) ++loads[index(link)].unfixed;
  }
  std::vector<double> rates(routes.size(), kInfinite);
  std::vector<bool> fixed(routes.size(), false);
  // Example: two links have the capacities 10 and 6. Flow a uses the first link, b uses both, and c uses the
  // second:
  //
  //     round 1   fair rates 10/2 = 5 and 6/2 = 3: the second is full first, so b = c = 3
  //     round 2   the first has 10 - 3 = 7 left for a, so a = 7
  for (;;) {
    const auto fullest = std::ranges::min_element(loads, {}, fair_rate);
    if (fullest == loads.end() || !std::isfinite(fair_rate(*fullest))) return rates;
    const double rate = fair_rate(*fullest);
    const auto full_link = static_cast<std::int32_t>(fullest - loads.begin());
    for (std::size_t flow = 0; flow < routes.size(); ++flow) {
      if (fixed[flow] || std::ranges::find(routes[flow], full_link) == routes[flow].end()) continue;
      fixed[flow] = true;
      rates[flow] = rate;
      for (const std::int32_t link : routes[flow]) {
        LinkLoad& load = loads[index(link)];
        load.free = std::max(0.0, load.free - rate);
        --load.unfixed;
      }
    }
  }
}

std::vector<Ns> plain_flow_ends(const Cluster& cluster, std::span<const PlainFlow> flows) {
  return PlainNetwork(cluster, flows).run();
}

}  // namespace penstock
