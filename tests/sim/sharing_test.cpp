// Tests the event engine on transfers that share links: cases that are computed by hand, the certainty of a
// makespan, and collectives on a torus. contention_test.cpp compares it with a slow reference on random
// programs.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/shared_links.hpp"
#include "report/result/result.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/engines/engines.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/sim/experiments.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

/// Returns an experiment in which ranks 0 and 1 each send an activation of 100 bytes, to ranks 2 and 3. Both
/// cross one link, which carries 1 byte in a nanosecond.
///
///   rank 0 --+                    +-- rank 2
///           left === 1 B/ns === right
///   rank 1 --+                    +-- rank 3
Experiment two_pipelines_over_one_link(Ns second_forward_ns) {
  const auto program = parse_program(
      "penstock program 1\nschedule custom\nmicrobatches 1\nedges 0>2 1>3\n"
      "stage 0: rank 0\nstage 1: rank 1\nstage 2: rank 2\nstage 3: rank 3\n"
      "rank 0: 0F0 0B0 0STEP\nrank 1: 1F0 1B0 1STEP\nrank 2: 2F0 2B0 2STEP\nrank 3: 3F0 3B0 3STEP\n",
      "two.psched");
  EXPECT_TRUE(program) << program.error();
  ClusterBuilder builder("bottleneck");
  std::vector<std::int32_t> devices;
  for (const char* name : {"a", "b", "c", "d"})
    devices.push_back(builder.add_device({.name = name, .memory_bytes = {}}));
  const std::int32_t left = builder.add_switch("left");
  const std::int32_t right = builder.add_switch("right");
  for (const int i : {0, 1})
    builder.add_duplex_link(devices[static_cast<std::size_t>(i)], left, kUnlimitedBandwidth, 0);
  for (const int i : {2, 3})
    builder.add_duplex_link(devices[static_cast<std::size_t>(i)], right, kUnlimitedBandwidth, 0);
  builder.add_duplex_link(left, right, 1e9, 0);
  CostTable costs;
  for (const Ns forward : {Ns{10}, second_forward_ns, Ns{0}, Ns{0}})
    costs.stages.push_back({.forward_ns = forward});
  costs.edges = {{100, 0}, {100, 0}};
  return experiment_of(*program, costs, *builder.build());
}

Ns arrival_on(const Timeline& timeline, std::int32_t rank) {
  for (const Span& span : timeline.spans) {
    if (span.rank == rank && span.action.kind == ActionKind::recv_forward) return span.end_ns;
  }
  return -1;
}

TEST(EventEngine, TwoTransfersOverOneLinkTakeTwiceAsLong) {
  const Experiment experiment = two_pipelines_over_one_link(10);
  EXPECT_TRUE(links_are_shared(experiment));
  EXPECT_EQ(resolve(experiment, Engine::automatic), Engine::event);
  const Timeline timeline = *event_simulation(experiment);
  EXPECT_EQ(arrival_on(timeline, 2), 210);
  EXPECT_EQ(arrival_on(timeline, 3), 210);
  EXPECT_EQ(arrival_on(*critical_path(experiment), 2), 110) << "the critical path knows no sharing";
}

TEST(EventEngine, AShareLastsOnlyAsLongAsBothTransfersDo) {
  //   0>2   10 |-- 50 bytes alone --| 60 |-- 50 at half rate --| 160
  //   1>3                             60 |-- 50 at half rate --| 160 |-- 50 alone --| 210
  const Timeline timeline = *event_simulation(two_pipelines_over_one_link(60));
  EXPECT_EQ(arrival_on(timeline, 2), 160);
  EXPECT_EQ(arrival_on(timeline, 3), 210);
}

TEST(EventEngine, AGradientReductionSlowsTheBackwardPassThatItOverlaps) {
  const Program program = *generate("1f1b-rr", {.stages = 2, .microbatches = 8, .replicas = {2, 1}});
  CostTable costs{.stages = {{.forward_ns = 100, .backward_ns = 200, .gradients = 1000},
                             {.forward_ns = 50, .backward_ns = 100}},
                  .edges = {{400, 400}}};
  // All three devices are connected to one switch, so reductions and activations leave rank 0 over the same
  // link.
  const Cluster star = *two_level_cluster(
      {.nodes = 1, .devices_per_node = 3, .intra_bytes_per_second = 1e9, .memory_bytes = {}});
  const Experiment experiment = experiment_of(program, costs, star);
  EXPECT_TRUE(links_are_shared(experiment));
  EXPECT_GE(event_simulation(experiment)->makespan_ns, critical_path(experiment)->makespan_ns);
}

TEST(EventEngine, EqualInputsGiveEqualTimelines) {
  const Experiment experiment = two_pipelines_over_one_link(33);
  EXPECT_EQ(*event_simulation(experiment), *event_simulation(experiment));
}

/// Returns an experiment in which four replicas of one stage reduce 4000 bytes after each minibatch. Replica
/// r is on device `order[r]` of two servers with two devices each.
Experiment reducing_replicas(const std::vector<std::int32_t>& order) {
  const Program program = *generate("data-parallel", {.stages = 1, .microbatches = 4, .replicas = {4}});
  const CostTable costs{.stages = {{.forward_ns = 100, .backward_ns = 200, .gradients = 4000}}, .edges = {}};
  const Cluster cluster = *two_level_cluster({.nodes = 2,
                                              .devices_per_node = 2,
                                              .intra_bytes_per_second = 4e9,
                                              .inter_bytes_per_second = 1e9,
                                              .device_order = order});
  return experiment_of(program, costs, cluster);
}

// A ring sends 2 (4-1)/4 of the 4000 bytes over an uplink that carries 1 byte in a nanosecond, which takes
// 6000 ns. If the ring had the order of ranks that alternate between servers, all four hops would cross the
// uplinks, two in each direction.
TEST(EventEngine, ARingGoesServerByServerHoweverReplicasArePlaced) {
  const Experiment in_turn = reducing_replicas({0, 2, 1, 3});
  EXPECT_EQ(event_simulation(in_turn)->makespan_ns, 300 + 6000);
  EXPECT_EQ(*event_simulation(in_turn), *event_simulation(reducing_replicas({0, 1, 2, 3})));
  EXPECT_FALSE(links_are_shared(in_turn)) << "each uplink carries one hop";
}

// Four devices share one bus, which carries 1 byte in a nanosecond. All four hops of the ring cross it at the
// same time.
TEST(EventEngine, HopsOfOneRingShareALink) {
  ClusterBuilder builder("bus");
  std::vector<std::int32_t> devices;
  for (int i = 0; i < 4; ++i) devices.push_back(builder.add_device({}));
  const std::int32_t out = builder.add_switch("out");
  const std::int32_t in = builder.add_switch("in");
  for (const std::int32_t device : devices) {
    builder.add_link(device, out, 4e9, 0);
    builder.add_link(in, device, 4e9, 0);
  }
  builder.add_link(out, in, 1e9, 0);
  const Program program = *generate("data-parallel", {.stages = 1, .microbatches = 4, .replicas = {4}});
  const CostTable costs{.stages = {{.forward_ns = 100, .backward_ns = 200, .gradients = 4000}}, .edges = {}};
  const Experiment experiment = experiment_of(program, costs, *builder.build());
  EXPECT_TRUE(links_are_shared(experiment));
  EXPECT_EQ(event_simulation(experiment)->makespan_ns, 300 + 4 * 6000);
}

// Two replicas on both sides of a link reduce 200 bytes in each direction. Two activations of 50 bytes cross
// the link with hop 0>1, and a gradient of 100 bytes leaves at 200 in the direction of hop 1>0.
//
//   0>1 ring  |==========| 200 at half rate, then 100 alone |====| 300        a >== left === right ==> b
//   activations  50 until 100, 50 until 200                                   c ==> left === right ==> d
//   1>0 ring  |==========| 200, alone at the full rate
//   gradient               200 |====| 300, alone, because hop 1>0 has ended
TEST(EventEngine, HopsOfARingDoNotWaitForEachOther) {
  const auto program = parse_program(
      "penstock program 1\nschedule custom\nmicrobatches 2\nedges 1>2\n"
      "stage 0: ranks 0 1 route 0 1\nstage 1: rank 2\nstage 2: rank 3\n"
      "rank 0: 0F0 0B0 0REDUCE_GRAD 0STEP\nrank 1: 0F1 0B1 0REDUCE_GRAD 0STEP\n"
      "rank 2: 1F0 1F1 1B0 1B1 1STEP\nrank 3: 2F0 2B0 2F1 2B1 2STEP\n",
      "ring.psched");
  ASSERT_TRUE(program) << program.error();
  ClusterBuilder builder("two sides");
  std::vector<std::int32_t> devices;
  for (const char* name : {"a", "b", "c", "d"}) devices.push_back(builder.add_device({.name = name}));
  const std::int32_t left = builder.add_switch("left");
  const std::int32_t right = builder.add_switch("right");
  for (const std::size_t i : {0U, 2U}) builder.add_duplex_link(devices[i], left, kUnlimitedBandwidth, 0);
  for (const std::size_t i : {1U, 3U}) builder.add_duplex_link(devices[i], right, kUnlimitedBandwidth, 0);
  builder.add_duplex_link(left, right, 1e9, 0);
  const CostTable costs{.stages = {{.gradients = 200}, {}, {.forward_ns = 100}}, .edges = {{50, 100}}};
  const Timeline timeline = *event_simulation(experiment_of(*program, costs, *builder.build()));
  const auto end_of = [&](std::int32_t rank, ActionKind kind) {
    for (const Span& span : timeline.spans) {
      if (span.rank == rank && span.action.kind == kind) return span.end_ns;
    }
    return Ns{-1};
  };
  EXPECT_EQ(end_of(0, ActionKind::reduce_grad), 300);
  EXPECT_EQ(end_of(2, ActionKind::recv_backward), 300);
}

// The note of `simulate` about the certainty of a makespan.

using testing::Contains;
using testing::HasSubstr;
using testing::StartsWith;

/// Returns 24 pipelines over four servers. With messages of 8 MiB, the links are usually full. With messages
/// of 64 KiB, messages rarely meet.
Experiment pipelines(Bytes message_bytes) {
  return pipelines_on_shared_links(
      {.pipelines = 24, .stages = 4, .microbatches = 24, .message_bytes = message_bytes});
}

std::vector<std::string> notes_of(const Experiment& experiment, SharingBand band) {
  return simulate(experiment, {.memory = {.samples = false}, .steady = SteadyState::skip, .band = band})
      ->notes;
}

TEST(SharingBand, DenseSharingIsSaid) {
  const Experiment dense = pipelines(8 << 20);
  EXPECT_GT(sharing_band(dense, event_simulation(dense)->makespan_ns), 1e-4);
  EXPECT_THAT(notes_of(dense, SharingBand::find),
              Contains(AllOf(StartsWith("shared links: ±"), HasSubstr(" %"))));
}

TEST(SharingBand, SparseSharingHandsADifferenceOnAsItIs) {
  const Experiment sparse = pipelines(64 << 10);
  EXPECT_TRUE(links_are_shared(sparse));
  const double band = sharing_band(sparse, event_simulation(sparse)->makespan_ns);
  EXPECT_GT(band, 0);
  EXPECT_LE(band, 1e-5);
  EXPECT_TRUE(notes_of(sparse, SharingBand::find).empty());
}

TEST(SharingBand, IsTheSameEachTime) {
  const Experiment dense = pipelines(8 << 20);
  const Ns makespan_ns = event_simulation(dense)->makespan_ns;
  EXPECT_EQ(sharing_band(dense, makespan_ns), sharing_band(dense, makespan_ns));
}

TEST(SharingBand, IsLookedForOnlyWhenAsked) {
  EXPECT_TRUE(notes_of(pipelines(8 << 20), SharingBand::skip).empty());
}

TEST(SharingBand, NothingRunsNothingIsUnsure) {
  Experiment empty = pipelines(0);
  EXPECT_EQ(sharing_band(empty, 0), 0);
}

// Compares data parallelism on a torus, by both engines, with the formula of its collectives.

/// Returns one step of 12 replicas on a 3 x 4 torus with 1 GB/s and 7 ns. Only the reduction of 12 MB of
/// gradients takes time.
Scenario reduction_on(const std::string& cluster, const std::string& schedule = "") {
  const std::string text =
      "model: {stages: {forward: 0, backward: 0, gradients: 12 MB}}\n"
      "cluster: " +
      cluster + "\nschedule: {name: data-parallel, stages: 1, replicas: 12, microbatches: 12" + schedule +
      "}\n";
  auto scenario = parse_scenario(text, "torus.yaml", {}, {});
  EXPECT_TRUE(scenario) << scenario.error();
  return scenario.value_or(Scenario{});
}

constexpr const char* kTorus = "{preset: torus, dims: [3, 4], bandwidth: 1 GB/s, latency: 7 ns}";
constexpr const char* kRing =
    "{preset: torus, dims: [3, 4], bandwidth: 1 GB/s, latency: 7 ns, collectives: ring}";

Result run_of(const Scenario& scenario, Engine engine) {
  SimulateOptions options;
  options.engine = engine;
  auto result = simulate_scenario(scenario, options);
  EXPECT_TRUE(result) << result.error().message;
  return result.value_or(Result{});
}

// Each device sends 2 x 11/12 of the bytes, in 2 (2 + 3) steps.
TEST(TorusRun, AllReduceGoesByDimensionInBothEngines) {
  for (const Engine engine : {Engine::critical_path, Engine::event}) {
    const Result result = run_of(reduction_on(kTorus), engine);
    EXPECT_EQ(result.makespan_ns, 22'000'000 + 10 * 7) << to_text(engine);
    for (const RankReport& rank : result.ranks) EXPECT_EQ(rank.sent_bytes, 22'000'000) << rank.rank;
  }
}

TEST(TorusRun, EveryByteThatARankSendsCrossesALink) {
  const Result result = run_of(reduction_on(kTorus), Engine::automatic);
  std::int64_t crossed = 0;
  for (const LinkTraffic& link : result.links) crossed += link.bytes;
  EXPECT_EQ(crossed, 12 * std::int64_t{22'000'000});
  EXPECT_EQ(result.links.size(), 24U) << "a link ahead in each of two dimensions";
}

TEST(TorusRun, StreamedStoredAndEventRunsAgreeUnderSharding) {
  for (const char* sharding : {", sharding: 1", ", sharding: 2", ", sharding: 3"}) {
    const Scenario scenario = reduction_on(kTorus, sharding);
    const Result event = run_of(scenario, Engine::event);
    EXPECT_EQ(run_of(scenario, Engine::critical_path).makespan_ns, event.makespan_ns) << sharding;
    SimulateOptions short_way;
    short_way.timeline = TimelineKept::none;
    const auto plain = simulate_scenario(scenario, short_way);
    ASSERT_TRUE(plain);
    EXPECT_EQ(plain->makespan_ns, event.makespan_ns) << sharding;
    EXPECT_EQ(plain->links, event.links) << sharding;
  }
}

TEST(TorusRun, ATorusIsWrittenAsItIsRead) {
  for (const char* cluster : {kTorus, kRing}) {
    const Scenario scenario = reduction_on(cluster);
    const auto text = cluster_to_yaml(scenario.cluster);
    ASSERT_TRUE(text) << text.error();
    const auto again =
        parse_scenario(*text + "schedule: {name: 1f1b, stages: 2, microbatches: 2}\n", "b.yaml", {}, {});
    ASSERT_TRUE(again) << again.error();
    EXPECT_EQ(std::get<Cluster>(again->cluster.shape).torus(),
              std::get<Cluster>(scenario.cluster.shape).torus());
  }
}

}  // namespace
}  // namespace penstock
