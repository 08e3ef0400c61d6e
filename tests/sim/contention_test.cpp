// Flows that share links, and the event engine on them, against the plain network of bench/plain_flows.hpp,
// which finds every rate anew at every start and end.
//
// A run is right when two things hold: had every message held its channel as long as it did in this run, the
// walk that knows nothing of links would begin and end everything at the same time; and given when the
// messages began, the plain network says that they hold their channels so long. So the engine is held against
// both to a few ns however dense the sharing, where two simulations side by side would drift apart.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "bench/plain_flows.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/engines/event_walk.hpp"
#include "sim/network/flow_network.hpp"
#include "sim/network/message_costs.hpp"
#include "tests/sim/random_experiment.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

std::int32_t pick(std::mt19937& random, std::int32_t least, std::int32_t most) {
  return std::uniform_int_distribution<std::int32_t>(least, most)(random);
}

/// Servers of a few devices, slow or fast links inside and between them, some without a limit.
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

// Among them hauls so long that a double has too few digits for a nanosecond or a byte.
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
  // 100 bytes alone until 10, then at half rate; the 20 bytes are through at 10 + 40, when 70 of the 100 are
  // left.
  const std::vector<PlainFlow> flows{{.start_ns = 0, .from = 0, .to = 1, .bytes = 100},
                                     {.start_ns = 10, .from = 0, .to = 1, .bytes = 20}};
  EXPECT_EQ(ends_of(*builder.build(), flows), (std::vector<Ns>{120, 50}));
}

/// The flows of a run, and the message of each.
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

/// When each message has left its links, by the plain network.
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

/// Latency of a transfer or of a collective's ring; a barrier has none.
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
