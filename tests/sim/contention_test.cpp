// Compares rates over shared links with progressive filling (bench/plain_flows.hpp), on random networks,
// after each start and end of a flow. The first cases can be checked by hand. The second half compares the
// ends of flows, and the event engine, with the same slow reference.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "bench/plain_flows.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/engines/engines.hpp"
#include "sim/network/flow_network.hpp"
#include "sim/network/message_costs.hpp"
#include "tests/sim/experiments.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

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

/// Returns the rates if there is one flow on each route.
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
  // Link 0 with capacity 12 carries flows 0 and 1. Link 1 with capacity 2 carries flow 1. So flow 1 gets 2,
  // and flow 0 gets the rest of link 0.
  EXPECT_EQ(rates_of({12, 2}, {{0}, {0, 1}}), (Rates{10, 2}));
}

TEST(MaxMinShare, TheParkingLotIsFair) {
  // Flow 0 crosses all three links. Each link carries one further flow.
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
  // The three links have the capacities 10, 6 and 100. Class a crosses link 0, b crosses links 0 and 1, c
  // crosses links 1 and 2, and d crosses link 2.
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

/// Random links and classes of routes. There are few different capacities, so equal levels are frequent.
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

/// Returns the rate of each class by progressive filling, which gets one route for each flow.
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

/// Returns true if the rates differ by at most 1e-9 of the smaller one. Two infinite rates are equal.
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
      if (network.pick(1, 4) == 1) continue;  // several changes before one solve()
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

// Compares flows on shared links, and the event engine, with the slow reference of bench/plain_flows.hpp,
// which computes all rates again at every start and end.
//
// A run is right if two conditions are true. First, the walk, which ignores links, finds the same times if
// each message occupies its channel as long as in this run. Second, the reference finds the same durations if
// the messages start as in this run. Each comparison is exact to a few ns, even if many messages share links.
// Two separate simulations would drift apart.

std::int32_t pick(std::mt19937& random, std::int32_t least, std::int32_t most) {
  return std::uniform_int_distribution<std::int32_t>(least, most)(random);
}

/// Returns a random cluster of servers with a few devices. Its links are slow, fast or unlimited, inside
/// servers and between them.
Cluster random_cluster(std::mt19937& random, std::int32_t devices) {
  const double rates[] = {1e8, 5e8, 1e9, 3e9, kUnlimitedBandwidth};
  const std::int32_t of_a_server = pick(random, 1, devices);
  return *two_level_cluster({.nodes = (devices + of_a_server - 1) / of_a_server,
                             .devices_per_node = of_a_server,
                             .intra_bytes_per_second = rates[pick(random, 0, 4)],
                             .intra_latency_ns = pick(random, 0, 1) * 6,
                             .inter_bytes_per_second = rates[pick(random, 0, 4)],
                             .inter_latency_ns = pick(random, 0, 1) * 10});
}

std::vector<Ns> ends_of(const Cluster& cluster, const std::vector<PlainFlow>& flows) {
  std::vector<Ns> ends(flows.size(), -1);
  FlowNetwork network(cluster);
  const auto end_until = [&](Ns time) {
    for (auto end = network.next_end(); end && *end <= time; end = network.next_end())
      ends[index(network.finish())] = *end;
  };
  for (std::size_t i = 0; i < flows.size(); ++i) {
    end_until(flows[i].start_ns);
    network.start(flows[i].start_ns, network.class_of(flows[i].from, flows[i].to), flows[i].bytes,
                  static_cast<std::int32_t>(i));
  }
  end_until(std::numeric_limits<Ns>::max());
  return ends;
}

TEST(FlowNetwork, EndsFlowsWhenThePlainNetworkDoes) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const Cluster cluster = random_cluster(random, pick(random, 2, 9));
    std::vector<PlainFlow> flows;
    Ns start = 0;
    for (int i = 0; i < 80; ++i) {
      flows.push_back({.start_ns = start += pick(random, 0, 3) * pick(random, 0, 200),
                       .from = pick(random, 0, cluster.device_count() - 1),
                       .to = pick(random, 0, cluster.device_count() - 1),
                       .bytes = pick(random, 0, 3) * pick(random, 0, 1000)});
    }
    const std::vector<Ns> expected = plain_flow_ends(cluster, flows);
    const std::vector<Ns> ends = ends_of(cluster, flows);
    for (std::size_t i = 0; i < flows.size(); ++i)
      ASSERT_LE(std::abs(ends[i] - expected[i]), 2) << "seed " << seed << ", flow " << i << ": " << ends[i];
  }
}

// Some flows are so long that a double has too few digits for a nanosecond or a byte.
TEST(FlowNetwork, AFlowAloneTakesExactlyItsSerialization) {
  ClusterBuilder builder("pair");
  builder.add_device({});
  builder.add_device({});
  builder.add_duplex_link(0, 1, 3e9, 0);
  const Cluster cluster = *builder.build();
  std::vector<PlainFlow> flows;
  std::vector<Ns> expected;
  Ns now = 7;
  for (const Bytes bytes : {Bytes{0}, Bytes{1}, Bytes{100'000'001}, Bytes{7'785'734'836'787'737},
                            Bytes{20'000'000'000'000'000}, Bytes{1}}) {
    flows.push_back({.start_ns = now, .from = 0, .to = 1, .bytes = bytes});
    expected.push_back(now += serialization_ns(bytes, 3e9));
    now += 5;
  }
  EXPECT_EQ(ends_of(cluster, flows), expected);
}

TEST(FlowNetwork, SmallFlowsOvertakeLargeOnesOnTheSameRoute) {
  ClusterBuilder builder("pair");
  builder.add_device({});
  builder.add_device({});
  builder.add_duplex_link(0, 1, 1e9, 0);
  // The flow of 100 bytes is alone until 10 ns, and then has half of the rate. The flow of 20 bytes ends at
  // 10 + 40 ns. At this time, the first flow still has 70 bytes.
  const std::vector<PlainFlow> flows{{.start_ns = 0, .from = 0, .to = 1, .bytes = 100},
                                     {.start_ns = 10, .from = 0, .to = 1, .bytes = 20}};
  EXPECT_EQ(ends_of(*builder.build(), flows), (std::vector<Ns>{120, 50}));
}

/// The flows of a run, and for each flow the number of its message.
struct RunFlows {
  std::vector<PlainFlow> flows;
  std::vector<std::int32_t> message;
};

RunFlows flows_of(const Experiment& experiment, const FlatProgram& flat, const ProgramTimes& times) {
  std::vector<std::int32_t> order;
  for (std::size_t id = 0; id < flat.messages.size(); ++id) order.push_back(static_cast<std::int32_t>(id));
  std::ranges::stable_sort(order, {}, [&](std::int32_t id) { return times.message_start[index(id)]; });
  CollectiveRings rings(experiment);
  RunFlows run;
  for (const std::int32_t id : order) {
    const FlatMessage& message = flat.messages[index(id)];
    const Ns start = times.message_start[index(id)];
    const auto add = [&](std::int32_t from, std::int32_t to, Bytes bytes) {
      run.flows.push_back({.start_ns = start, .from = from, .to = to, .bytes = bytes});
      run.message.push_back(id);
    };
    if (message.recv != kNone) {
      add(message.from_rank, message.to_rank, message.bytes);
    } else if (flat.ops[index(message.first)] == FlatOp::collective) {
      const CollectiveRing& ring = rings.of(flat.actions[index(message.first)]);
      EXPECT_LE(ring.phases.size(), 1U) << "all flows of a collective begin at once";
      for (const CollectivePhase& phase : ring.phases) {
        for (const RingHop& hop : phase.hops) add(hop.from, hop.to, hop.bytes);
      }
    }
  }
  return run;
}

/// Returns the time at which each message has left its links, by the slow reference.
std::vector<Ns> plain_releases(const Experiment& experiment, const FlatProgram& flat,
                               const ProgramTimes& times) {
  const RunFlows run = flows_of(experiment, flat, times);
  const std::vector<Ns> ends = plain_flow_ends(experiment.cluster, run.flows);
  std::vector<Ns> releases = times.message_start;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    Ns& release = releases[index(run.message[i])];
    release = std::max(release, ends[i]);
  }
  return releases;
}

/// Returns the latency of a transfer or of a collective's ring, or 0 for a barrier.
Ns latency_of(const FlatProgram& flat, const WalkDurations& durations, CollectiveRings& rings,
              std::size_t id) {
  const FlatMessage& message = flat.messages[id];
  if (message.recv != kNone) return durations.latency[id];
  if (flat.ops[index(message.first)] != FlatOp::collective) return 0;
  const CollectiveRing& ring = rings.of(flat.actions[index(message.first)]);
  return ring.phases.empty() ? 0 : ring.cost.latency_ns;
}

void expect_right(const Experiment& experiment) {
  const FlatProgram flat =
      flatten(experiment.program, experiment.costs,
              {.channels = experiment.channels, .iterations = experiment.program.iterations});
  const WalkDurations durations = walk_durations(experiment, flat);
  const ProgramTimes times = event_walk(experiment, flat, durations);
  const std::vector<Ns> releases = plain_releases(experiment, flat, times);
  CollectiveRings rings(experiment);
  WalkDurations held = durations;
  for (std::size_t id = 0; id < flat.messages.size(); ++id) {
    const Ns latency = latency_of(flat, durations, rings, id);
    ASSERT_LE(std::abs(times.message_end[id] - latency - releases[id]), 3) << "message " << id;
    const Ns taken = times.message_end[id] - times.message_start[id];
    held.hold[id] = flat.messages[id].recv != kNone ? taken - latency : taken;
  }
  const ProgramTimes walked = walk(flat, held, experiment.channels).value();
  EXPECT_EQ(times.start, walked.start);
  EXPECT_EQ(times.end, walked.end);
  EXPECT_EQ(times.message_start, walked.message_start);
  EXPECT_EQ(times.message_end, walked.message_end);
}

TEST(EventEngine, FollowsTheRulesWhereLinksAreShared) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    Experiment experiment = random_experiment(seed);
    experiment.cluster = random_cluster(random, experiment.program.rank_count());
    if (seed % 3 == 0)
      experiment.costs.launch = {.overhead_ns = pick(random, 0, 30), .most_ahead = pick(random, 0, 3)};
    expect_right(experiment);
    if (HasFailure()) FAIL() << "seed " << seed << "\n" << to_text(experiment.program);
  }
}

}  // namespace
}  // namespace penstock
