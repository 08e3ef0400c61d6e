// Tests the times and the memory of programs in which stages run only forwards, and of edges that carry only
// one flow. The slow reference and a slow memory follow the rules of docs/design/semantics.md without the
// engines' code.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "report/print/memory_category.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/engines/engines.hpp"
#include "sim/memory/memory.hpp"
#include "sim/runs/plan_run.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/sim/experiments.hpp"
#include "tests/sim/reference_engine.hpp"

namespace penstock {
namespace {

Scenario forward_scenario(const std::string& text) {
  return parse_scenario(text, "forward.yaml", ".").value();
}

Result forward_result(const std::string& text, const SimulateOptions& options = {}) {
  return predict(forward_scenario(text), options).value().result;
}

const SimulateOptions kForwardFigures{
    .memory = {.samples = false}, .steady = SteadyState::skip, .timeline = TimelineKept::none};

// 4 forwards of 1 ms, and 1 ms until the second rank begins. With two chunks a rank, 8 forwards.
TEST(ForwardOnly, TakesTheForwardsAndTheFillOfThePipeline) {
  const std::string unit = "model: {stages: {forward: 1 ms, backward: 2 ms}}\n";
  EXPECT_EQ(
      forward_result("schedule: {name: gpipe, stages: 2, microbatches: 4, forward_only: true}").makespan_ns,
      5'000'000);
  for (const char* name : {"naive", "1f1b", "gpipe"}) {
    EXPECT_EQ(forward_result(
                  unit +
                  fmt::format("schedule: {{name: {}, stages: 2, microbatches: 4, forward_only: true}}", name))
                  .makespan_ns,
              5'000'000)
        << name;
  }
  for (const char* name : {"interleaved", "looped-bfs"}) {
    EXPECT_EQ(forward_result(
                  unit + fmt::format("schedule: {{name: {}, stages: 2, virtual_stages: 2, microbatches: 4, "
                                     "forward_only: true}}",
                                     name))
                  .makespan_ns,
              9'000'000)
        << name;
  }
}

// F takes 2 ms, and a message holds its channel for 1 ms and travels for 1 ms. In columns of 1 ms:
//
//   rank 0   F0-F1-..
//   channel    00||11||        0 held, | travels
//   rank 1   ....F0-F1-
TEST(ForwardOnly, RetainsAnActivationUntilItsConsumerHasIt) {
  const std::string text =
      "model: {stages: {forward: 2 ms, backward: 4 ms, activation: 1 MB, kept: 10 MB, weights: 5 MB}}\n"
      "cluster: {preset: uniform, devices: 2, bandwidth: 1 GB/s, latency: 1 ms}\n"
      "schedule: {name: 1f1b, stages: 2, microbatches: 2, forward_only: ";
  const Result result = forward_result(text + "true}");
  EXPECT_EQ(result.makespan_ns, 8'000'000);
  EXPECT_DOUBLE_EQ(result.bubble.idle_over_total, 0.5);
  EXPECT_EQ(result.ranks[0].peak_live_activations, 1);
  // F1 runs beside the weights and the send buffer of F0. F0 of rank 1 runs beside both receive buffers.
  EXPECT_EQ(result.ranks[0].memory.peak_bytes, 16'000'000);
  EXPECT_EQ(result.ranks[1].memory.peak_bytes, 17'000'000);
  EXPECT_EQ(result.ranks[0].memory.peaks[index(static_cast<int>(MemoryCategory::gradients))], 0);
  // Keys and values stay until the run ends.
  const Result cached = forward_result(text + "kv}");
  EXPECT_EQ(cached.makespan_ns, 8'000'000);
  EXPECT_EQ(cached.ranks[0].peak_live_activations, 2);
  EXPECT_EQ(cached.ranks[0].memory.peak_bytes, 26'000'000);
  EXPECT_EQ(cached.ranks[1].memory.peak_bytes, 26'000'000);
}

// Both chunks are on one rank. It runs 0F0 0F1 0F2 1F0 1F1 1F2, so three outputs wait for the second chunk.
TEST(ForwardOnly, HoldsTheOutputsForItsOwnRank) {
  const Result result = forward_result(
      "model: {stages: {forward: 2 ms, backward: 4 ms, activation: 1 MB, kept: 10 MB}}\n"
      "schedule: {name: looped-bfs, stages: 1, virtual_stages: 2, microbatches: 3, forward_only: true}",
      kForwardFigures);
  EXPECT_EQ(result.ranks[0].memory.peak_bytes, 13'000'000);
  EXPECT_EQ(result.ranks[0].memory.peak_action, "1F0");
}

std::string any_forward_text(std::mt19937& draw) {
  const auto below = [&](std::uint32_t bound) { return static_cast<int>(draw() % bound); };
  std::vector<const ScheduleInfo*> schedules;
  for (const ScheduleInfo& schedule : schedule_table()) {
    if (schedule.has_forward_half) schedules.push_back(&schedule);
  }
  const ScheduleInfo& schedule = *schedules[static_cast<std::size_t>(below(6)) % schedules.size()];
  const int stages = 1 + below(5);
  std::string text =
      fmt::format("schedule: {{name: {}, stages: {}, microbatches: {}, forward_only: {}", schedule.name,
                  stages, stages * (1 + below(12)), below(2) == 0 ? "kv" : "true");
  if (takes_chunks(schedule)) text += fmt::format(", virtual_stages: {}", 1 + below(2));
  if (below(4) == 0) text += ", data_parallel: 2";
  return text +
         fmt::format(
             "}}\ncluster: {{bandwidth: 1 GB/s, latency: {} us}}\n"
             "model: {{stages: {{forward: {} us, backward: 3 us, activation: {} KiB, kept: {} KiB, weights: "
             "3 MiB}}}}\n",
             below(3), 1 + below(5), below(3), below(9));
}

// The engines that store no lists must say what the stored run says: in plain runs, with a timeline, and in
// the rows of a sweep.
TEST(ForwardOnly, HasTheSameFiguresOnEveryEngine) {
  std::map<RunEngine, int> engines;
  for (std::uint32_t seed = 1; seed <= 400; ++seed) {
    std::mt19937 draw(seed);
    const std::string text = any_forward_text(draw);
    SCOPED_TRACE(testing::Message() << "seed " << seed << ":\n" << text);
    const Scenario scenario = forward_scenario(text);
    const auto plan = planned(scenario, kForwardFigures);
    if (!plan) continue;  // the rule refuses the shape
    ++engines[plan->engine];
    const Result result = predict(scenario, kForwardFigures).value().result;
    const Result stored = predict_stored(scenario, kForwardFigures).value().result;
    EXPECT_TRUE(result == stored);
    SimulateOptions row = kForwardFigures;
    row.figures = WantedFigures::of_rows;
    const Result of_row = predict(scenario, row).value().result;
    EXPECT_EQ(of_row.makespan_ns, stored.makespan_ns);
    for (std::size_t rank = 0; rank < stored.ranks.size(); ++rank)
      EXPECT_EQ(of_row.ranks[rank].memory.peak_bytes, stored.ranks[rank].memory.peak_bytes);
  }
  EXPECT_GT(engines[RunEngine::stream], 100);
  EXPECT_GT(engines.size(), 1U) << "outputs for the own rank need a stored run";
}

std::string first_difference(const Timeline& expected, const Timeline& actual) {
  if (expected.spans.size() != actual.spans.size()) return "different numbers of spans";
  for (std::size_t i = 0; i < expected.spans.size(); ++i) {
    if (expected.spans[i] == actual.spans[i]) continue;
    return fmt::format("{}: expected {}, got {}", to_text(expected.spans[i].action),
                       expected.spans[i].start_ns, actual.spans[i].start_ns);
  }
  return "";
}

TEST(OneWayEdges, EnginesAgreeOnRandomProgramsWithTheReference) {
  int forward = 0;
  for (std::uint32_t seed = 1; seed <= 5000; ++seed) {
    const Experiment experiment = random_one_way_experiment(seed);
    SCOPED_TRACE(testing::Message() << "seed " << seed << "\n" << to_text(experiment.program));
    // Random programs do not reduce and gather as validate() requires, so it reads them without collectives.
    Program plain = experiment.program;
    for (std::vector<Action>& list : plain.ranks) {
      std::erase_if(list, [](const Action& action) {
        return is_collective(action.kind) || action.kind == ActionKind::reshard;
      });
    }
    const auto valid = validate(plain);
    ASSERT_TRUE(valid) << valid.error();
    forward += has_forward_only_stage(experiment.program) ? 1 : 0;
    const Timeline expected = reference_engine(experiment);
    const auto fast = critical_path(experiment);
    ASSERT_TRUE(fast) << fast.error().message;
    ASSERT_EQ(first_difference(expected, *fast), "");
    if (links_are_shared(experiment)) continue;
    const auto events = event_simulation(experiment);
    ASSERT_TRUE(events) << events.error().message;
    ASSERT_EQ(first_difference(expected, *events), "");
  }
  EXPECT_GT(forward, 1600);
}

/// Bytes that a rank holds from one time until another.
struct PlainHolding {
  Ns from = 0;
  Ns until = 0;
  Bytes bytes = 0;
};

/// Returns the peak of a rank in a program of forward stages, by the rules of semantics.md. Requires that all
/// forwards and messages take time.
Bytes plain_peak(const Experiment& experiment, const Timeline& timeline, std::int32_t rank) {
  const Program& program = experiment.program;
  const EdgeNumbers edges(program);
  std::vector<PlainHolding> held;
  Bytes weights = 0;
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    if (program.placement.replica_on(stage, rank) >= 0)
      weights += experiment.costs.stages[index(stage)].weights;
  }
  const auto find = [&](std::int32_t of_rank, const Action& wanted) -> const Span* {
    for (const Span& span : timeline.spans) {
      const Action& action = span.action;
      if (span.rank == of_rank && action.kind == wanted.kind && action.stage == wanted.stage &&
          action.microbatch == wanted.microbatch && action.peer == wanted.peer)
        return &span;
    }
    return nullptr;
  };
  for (const Span& span : timeline.spans) {
    if (span.rank != rank) continue;
    const Action& action = span.action;
    const StageCost& cost = experiment.costs.stages[index(action.stage)];
    if (action.kind == ActionKind::forward) {
      const bool cached = program.placement.stages[index(action.stage)].passes == Passes::forward_kv;
      held.push_back({span.start_ns, cached ? timeline.makespan_ns + 1 : span.end_ns, cost.kept});
      held.push_back({span.start_ns, span.end_ns, cost.transient});
      for (const StageEdge& edge : stage_edges(program)) {
        if (edge.from != action.stage) continue;
        const Span* consumer =
            find(rank, {.kind = ActionKind::forward, .stage = edge.to, .microbatch = action.microbatch});
        if (consumer != nullptr)
          held.push_back({span.end_ns, consumer->end_ns, experiment.costs.edges[edges.of(edge)].activation});
      }
    } else if (is_transfer(action.kind)) {
      const Bytes bytes = transfer_bytes(experiment.costs, edges, action);
      const Span* own =
          find(rank, {.kind = ActionKind::forward, .stage = action.stage, .microbatch = action.microbatch});
      if (is_send(action.kind)) held.push_back({own->end_ns, span.end_ns, bytes});
      if (is_recv(action.kind)) held.push_back({span.start_ns, own->end_ns, bytes});
    }
  }
  Bytes peak = 0;
  for (const PlainHolding& at : held) {
    Bytes sum = 0;
    for (const PlainHolding& one : held) {
      if (one.from <= at.from && at.from < one.until) sum += one.bytes;
    }
    peak = std::max(peak, sum);
  }
  return weights + peak;
}

TEST(ForwardOnly, MemoryOfRandomProgramsIsThatOfASlowReading) {
  int compared = 0;
  for (std::uint32_t seed = 1; seed <= 1200; ++seed) {
    Experiment experiment = random_one_way_experiment(seed);
    const bool gathers = std::ranges::any_of(experiment.program.ranks, [](const std::vector<Action>& list) {
      return std::ranges::any_of(list, [](const Action& action) { return gathers_or_drops(action.kind); });
    });
    if (!is_forward_only(experiment.program) || gathers) continue;
    std::mt19937 draw(seed);
    for (StageCost& cost : experiment.costs.stages) {
      cost.forward_ns = 1 + draw() % 20;
      cost.kept = draw() % 50;
      cost.transient = draw() % 50;
    }
    for (EdgeCost& edge : experiment.costs.edges) edge.activation = 4 + draw() % 60;
    experiment.cluster = uniform_links(experiment.program.rank_count(), 1e9, 3);
    CostTable stated = experiment.costs;
    leave_out_backwards(experiment.costs, experiment.program);
    const auto timeline = critical_path(experiment);
    if (!timeline) continue;  // other sizes of messages may hang where some are eager
    SCOPED_TRACE(testing::Message() << "seed " << seed << "\n" << to_text(experiment.program));
    const std::vector<RankMemory> memories = memory_of(*timeline, experiment, {});
    std::swap(experiment.costs, stated);
    for (std::int32_t rank = 0; rank < experiment.program.rank_count(); ++rank)
      ASSERT_EQ(memories[index(rank)].peak_bytes, plain_peak(experiment, *timeline, rank)) << rank;
    ++compared;
  }
  EXPECT_GT(compared, 100);
}

}  // namespace
}  // namespace penstock
