// Data parallelism on a torus, by both engines, against the closed form of its collectives.

#include <cstdint>
#include <string>
#include <variant>

#include <gtest/gtest.h>

#include "report/result/result.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "scenarios/read/scenario_text.hpp"
#include "sim/engines/engines.hpp"
#include "sim/runs/simulate.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

/// One step of 12 replicas on a 3 x 4 torus of 1 GB/s and 7 ns, in which nothing but 12 MB of gradients takes
/// time.
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

// Each device sends 11/12 of the bytes twice, in 2 (2 + 3) steps.
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
