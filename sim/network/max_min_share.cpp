// Progressive filling over the links that are in use (Bertsekas and Gallager, Data Networks, section 6.5.2):
// all rates grow alike until a link is full, its transfers keep that rate, and the others go on. The result
// is the one allocation in which no rate can grow but at the cost of one that is not larger.

#include "sim/network/max_min_share.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace penstock {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

struct LinkLoad {
  double free = kInfinite;
  std::int32_t unfixed = 0;
};

double fair_rate(const LinkLoad& load) { return load.unfixed == 0 ? kInfinite : load.free / load.unfixed; }

}  // namespace

std::vector<double> max_min_share(std::span<const double> capacities,
                                  std::span<const std::vector<std::int32_t>> routes) {
  std::vector<LinkLoad> loads(capacities.size());
  for (std::size_t link = 0; link < capacities.size(); ++link) loads[link].free = capacities[link];
  for (const std::vector<std::int32_t>& route : routes) {
    for (const std::int32_t link : route) ++loads[static_cast<std::size_t>(link)].unfixed;
  }
  std::vector<double> rates(routes.size(), kInfinite);
  std::vector<bool> fixed(routes.size(), false);
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
        LinkLoad& load = loads[static_cast<std::size_t>(link)];
        load.free = std::max(0.0, load.free - rate);
        --load.unfixed;
      }
    }
  }
}

}  // namespace penstock
