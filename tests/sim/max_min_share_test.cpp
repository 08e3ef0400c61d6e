// Rates over shared links on cases that can be done in the head, and against progressive filling
// (bench/plain_flows.hpp) on random networks, after every flow that starts or ends.

#include "sim/network/max_min_share.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "bench/plain_flows.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {
namespace {

using Rates = std::vector<double>;
using Routes = std::vector<std::vector<std::int32_t>>;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

MaxMinShare share_of(const Rates& capacities) {
  MaxMinShare share;
  for (const double capacity : capacities) share.add_link(capacity);
  return share;
}

/// The rates of one flow on each route.
Rates rates_of(const Rates& capacities, const Routes& routes) {
  MaxMinShare share = share_of(capacities);
  for (const auto& route : routes) share.start(share.add_class(route));
  share.solve();
  Rates rates;
  for (std::size_t i = 0; i < routes.size(); ++i) rates.push_back(share.rate(static_cast<std::int32_t>(i)));
  EXPECT_EQ(rates, plain_max_min_share(capacities, routes));
  return rates;
}

TEST(MaxMinShare, TwoFlowsOnOneLinkGetHalfEach) { EXPECT_EQ(rates_of({10}, {{0}, {0}}), (Rates{5, 5})); }

TEST(MaxMinShare, AFlowThatIsHeldElsewhereLeavesItsShareToOthers) {
  // Link 0 (12) carries flows 0 and 1, link 1 (2) carries flow 1: flow 1 gets 2, flow 0 the rest.
  EXPECT_EQ(rates_of({12, 2}, {{0}, {0, 1}}), (Rates{10, 2}));
}

TEST(MaxMinShare, TheParkingLotIsFair) {
  // Flow 0 crosses all three links, one more flow on each.
  EXPECT_EQ(rates_of({6, 6, 6}, {{0, 1, 2}, {0}, {1}, {2}}), (Rates{3, 3, 3, 3}));
}

TEST(MaxMinShare, AnUnlimitedLinkDoesNotLimit) {
  const Rates rates = rates_of({kInfinite, 4}, {{0}, {0, 1}, {}});
  EXPECT_TRUE(std::isinf(rates[0]));
  EXPECT_EQ(rates[1], 4);
  EXPECT_TRUE(std::isinf(rates[2]));
}

TEST(MaxMinShare, NoFlowsNeedNoRates) {
  MaxMinShare share = share_of({1});
  EXPECT_TRUE(share.solve().empty());
}

TEST(MaxMinShare, AChangeGoesAsFarAsItChangesRates) {
  // Links of 10, 6 and 100 in a row: a and b on 0 and 1, c on 1 and 2, d on 2.
  MaxMinShare share = share_of({10, 6, 100});
  const std::int32_t a = share.add_class({0});
  const std::int32_t b = share.add_class({0, 1});
  const std::int32_t c = share.add_class({1, 2});
  const std::int32_t d = share.add_class({2});
  for (const std::int32_t flow : {a, b, c, d}) share.start(flow);
  share.solve();
  EXPECT_EQ((Rates{share.rate(a), share.rate(b), share.rate(c), share.rate(d)}), (Rates{7, 3, 3, 97}));
  share.finish(a);
  EXPECT_EQ(share.solve().size(), 2U) << "a, and b beside it; b stays at 3, so that c and d rest";
  share.finish(c);
  share.solve();
  EXPECT_EQ((Rates{share.rate(b), share.rate(d)}), (Rates{6, 100}));
}

TEST(MaxMinShare, AStartAndAnEndAtOnceLeaveTheRates) {
  MaxMinShare share = share_of({9});
  const std::int32_t flows = share.add_class({0});
  for (int i = 0; i < 3; ++i) share.start(flows);
  share.solve();
  share.finish(flows);
  share.start(flows);
  share.solve();
  EXPECT_EQ(share.rate(flows), 3);
}

/// Links and classes of routes, drawn from a seed; few different capacities, so that ties are frequent.
struct RandomNetwork {
  explicit RandomNetwork(std::uint32_t seed) : random(seed) {
    const std::int32_t links = pick(1, 12);
    for (std::int32_t i = 0; i < links; ++i)
      capacities.push_back(pick(1, 10) == 1  ? kInfinite
                           : pick(1, 2) == 1 ? pick(1, 4)
                                             : pick(1, 1'000'000) * 1e3);
    for (std::int32_t i = pick(1, 15); i > 0; --i) {
      std::vector<std::int32_t>& route = routes.emplace_back();
      for (std::int32_t link = 0; link < links; ++link) {
        if (pick(1, 4) == 1) route.push_back(link);
      }
      std::ranges::shuffle(route, random);
    }
  }

  std::int32_t pick(std::int32_t least, std::int32_t most) {
    return std::uniform_int_distribution<std::int32_t>(least, most)(random);
  }

  std::mt19937 random;
  Rates capacities;
  Routes routes;  // by class
};

/// What progressive filling gives to each class, asked with one route a flow.
Rates plain_rates(const RandomNetwork& network, const std::vector<std::int32_t>& flows) {
  Routes routes;
  for (std::size_t i = 0; i < flows.size(); ++i)
    routes.insert(routes.end(), index(flows[i]), network.routes[i]);
  const Rates of_flows = plain_max_min_share(network.capacities, routes);
  Rates rates(flows.size(), 0);
  for (std::size_t i = 0, flow = 0; i < flows.size(); flow += index(flows[i++])) {
    if (flows[i] > 0) rates[i] = of_flows[flow];
  }
  return rates;
}

/// Equal to 1e-9 of the smaller; two infinite rates are equal.
bool agree(double a, double b) { return a == b || std::abs(a - b) <= 1e-9 * std::min(a, b); }

TEST(MaxMinShare, AgreesWithProgressiveFillingWhereFlowsComeAndGo) {
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    RandomNetwork network(seed);
    MaxMinShare share = share_of(network.capacities);
    for (const auto& route : network.routes) share.add_class(route);
    std::vector<std::int32_t> flows(network.routes.size(), 0);
    for (int event = 0; event < 60; ++event) {
      const std::int32_t changed = network.pick(0, static_cast<std::int32_t>(flows.size()) - 1);
      const bool starts = flows[index(changed)] == 0 || network.pick(1, 2) == 1;
      flows[index(changed)] += starts ? 1 : -1;
      starts ? share.start(changed) : share.finish(changed);
      if (network.pick(1, 4) == 1) continue;  // several at once
      share.solve();
      const Rates expected = plain_rates(network, flows);
      for (std::size_t i = 0; i < flows.size(); ++i) {
        if (flows[i] == 0) continue;
        ASSERT_TRUE(agree(share.rate(static_cast<std::int32_t>(i)), expected[i]))
            << "seed " << seed << ", event " << event << ", class " << i << ": "
            << share.rate(static_cast<std::int32_t>(i)) << " instead of " << expected[i];
      }
    }
  }
}

}  // namespace
}  // namespace penstock
