// Tests runs by placement rounds, which never store lowered lists. The times of their tapes equal those of
// lowered lists, to the nanosecond, for all schedules and random programs with all channel models. Then
// compares whole runs, and points of sweeps, with stored runs.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/tape.hpp"
#include "sim/memory/memory.hpp"
#include "sim/runs/plan_run.hpp"
#include "sim/runs/simulate.hpp"
#include "tests/schedules/shapes.hpp"
#include "tests/sim/experiments.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

/// Returns the spans of compute actions, rank by rank in program order.
std::vector<Span> compute_spans(const std::vector<Span>& spans) {
  std::vector<Span> found;
  std::ranges::copy_if(spans, std::back_inserter(found),
                       [](const Span& span) { return is_compute(span.action.kind); });
  return found;
}

/// Returns the spans of compute actions from a tape with collectives, which are found by the positions in its
/// origins.
std::vector<Span> compute_spans(const Program& program, const TurnTape& turns,
                                const std::vector<InstructionTimes>& times) {
  std::vector<Span> spans;
  std::vector<std::size_t> instruction_at;
  for (const auto& list : program.ranks) instruction_at.resize(instruction_at.size() + list.size());
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (turns.tape.origins[i].position >= 0) instruction_at[index(turns.tape.origins[i].position)] = i;
  }
  std::size_t position = 0;
  for (std::int32_t rank = 0; rank < program.rank_count(); ++rank) {
    InstructionTimes at;
    const std::vector<Action>& list = program.ranks[index(rank)];
    for (std::size_t i = 0; i < list.size(); ++i, ++position) {
      if (!is_compute(list[i].kind)) continue;
      if (opens_group(list, i)) at = times[instruction_at[position]];
      spans.push_back({.rank = rank,
                       .action = list[i],
                       .replica = program.placement.replica_on(list[i].stage, rank),
                       .start_ns = at.start_ns,
                       .end_ns = at.end_ns});
    }
  }
  return spans;
}

/// Compares the tape that placement rounds make of a compute program with the run of its lowered lists.
/// Returns false if there is no tape.
bool agrees(const Program& compute, const CostTable& costs, ChannelModel model) {
  auto lowered = lower(compute);
  const std::optional<TurnTape> turns = compile_turns(compute, {.model = model}, microbatch_groups(costs));
  if (!lowered) {
    EXPECT_FALSE(turns);
    return false;
  }
  if (!turns) return false;
  Experiment experiment = experiment_of(*lowered, costs, uniform_links(compute.rank_count(), 1e9, 7));
  experiment.channels = {.model = model};
  const auto run = critical_path_run(experiment);
  EXPECT_TRUE(run.has_value()) << "what is placed does not hang";
  if (!run) return false;
  const Timeline expected = timeline_of(run->flat, compute.placement, run->times);

  const TapeCosts prices = tape_costs(turns->tape, experiment);
  EXPECT_EQ(makespan_ns(turns->tape, prices), expected.makespan_ns);
  const std::vector<InstructionTimes> times = instruction_times(turns->tape, prices);
  EXPECT_EQ(compute_spans(compute, *turns, times), compute_spans(expected.spans));
  const bool drops = std::ranges::any_of(compute.ranks, [](const std::vector<Action>& list) {
    return std::ranges::find(list, ActionKind::reshard, &Action::kind) != list.end();
  });
  if (turns->has_collectives || drops) return true;
  EXPECT_EQ(timeline_of_turns(compute, *turns, prices), expected);
  EXPECT_LE(turns->tape.size(), run->tape->tape.size()) << "a message starts when it is placed";
  EXPECT_EQ(turns->tape.both_ends, run->tape->tape.both_ends);
  return true;
}

TEST(TurnTape, EqualsTheTapeOfListsOnEveryGeneratorUnderEveryChannelModel) {
  int compared = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    const int before = compared;
    for (const std::int32_t stages : {1, 2, 3, 4}) {
      for (const std::int32_t microbatches : {1, 2, 4, 6, 8}) {
        const auto program = generate(
            schedule.name,
            {.stages = stages, .microbatches = microbatches, .virtual_stages = chunks_to_try(schedule)});
        if (!program) continue;
        for (const ChannelModel model : kChannelModels) {
          SCOPED_TRACE(testing::Message()
                       << schedule.name << " K=" << stages << " M=" << microbatches << " " << to_text(model));
          EXPECT_TRUE(agrees(*program, uneven_costs(*program, 17), model));
          ASSERT_FALSE(HasFailure());
          ++compared;
        }
      }
    }
    EXPECT_GT(compared, before) << schedule.name;
  }
  EXPECT_GT(compared, 1500);
}

TEST(TurnTape, EqualsTheTapeOfListsWhereMicrobatchesDiffer) {
  for (const ScheduleInfo& schedule : schedule_table()) {
    const auto program =
        generate(schedule.name, {.stages = 4, .microbatches = 8, .virtual_stages = chunks_to_try(schedule)});
    SCOPED_TRACE(schedule.name);
    ASSERT_TRUE(program) << program.error();
    EXPECT_TRUE(agrees(*program, differing_costs(*program, index(program->microbatches) / 2),
                       ChannelModel::directed));
  }
}

TEST(TurnTape, EqualsTheTapeOfListsOnRandomPrograms) {
  int compared = 0;
  for (std::uint32_t seed = 1; seed <= 60'000; ++seed) {
    Program program = random_compute_program(seed, {});
    program.iterations = 1;
    if (!validate(program)) continue;
    SCOPED_TRACE(testing::Message() << "seed " << seed << "\n" << to_text(program));
    compared += agrees(program, uneven_costs(program, seed), kChannelModels[seed % kChannelModels.size()]);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(compared, 20'000);
}

TEST(TurnTape, AMessageRidesOnItsProducersInstruction) {
  const Program program = *generate("gpipe", {.stages = 2, .microbatches = 8});
  const std::optional<TurnTape> turns = compile_turns(program, {});
  ASSERT_TRUE(turns);
  EXPECT_EQ(turns->tape.size(), 2 * (8 + 8 + 1)) << "F, B and STEP alone: none for activations and gradients";
  EXPECT_EQ(turns->units.size(), 2 * 8);
  EXPECT_LT(turns->tape.register_count, 20) << "registers of messages are used again";
}

TEST(TurnTape, LeavesToListsWhatDoesNotFollowFromTurns) {
  Program program = *generate("1f1b", {.stages = 2, .microbatches = 4});
  EXPECT_TRUE(compile_turns(program, {}));
  EXPECT_FALSE(compile_turns(program, {.blocking = Blocking::each}));
  EXPECT_FALSE(compile_turns(program, {.capacity = 1}));
  EXPECT_FALSE(compile_turns(program, {.eager_bytes = 5}));
  program.iterations = 2;
  EXPECT_FALSE(compile_turns(program, {}));
}

TEST(TurnTape, ThereIsNoneOfAnOrderThatCannotBeExecuted) {
  const auto program = parse_program(
      "penstock program 1\nschedule custom\nmicrobatches 1\nstage 0: rank 0\nstage 1: rank 1\n"
      "rank 0: 0B0 0F0 0STEP\nrank 1: 1F0 1B0 1STEP\n",
      "crossed.psched");
  ASSERT_TRUE(program);
  EXPECT_FALSE(compile_turns(*program, {}));
}

// A run by placement rounds equals the run of stored lists in all figures, spans, memory samples, notes, and
// in the digest.

Scenario turn_scenario(const std::string& text) {
  auto loaded = parse_scenario(text, "turns.yaml", ".");
  EXPECT_TRUE(loaded) << loaded.error();
  return *loaded;
}

/// Compares a run by placement rounds with the stored run. Returns false if another engine is chosen.
bool agrees(const Scenario& scenario, const SimulateOptions& options) {
  const auto plan = planned(scenario, options);
  if (!plan || plan->engine != RunEngine::turns) return false;
  const auto run = predict(scenario, options);
  EXPECT_TRUE(run) << run.error().message;
  if (!run) return true;
  const Result* const result = &run->result;
  const auto stored = predict_stored(scenario, options);
  EXPECT_TRUE(stored) << stored.error().message;
  if (!stored) return true;
  EXPECT_EQ(result->program.digest, stored->result.program.digest);
  EXPECT_EQ(result->throughput, stored->result.throughput);
  EXPECT_EQ(result->timeline, stored->result.timeline);
  EXPECT_TRUE(*result == stored->result);
  EXPECT_EQ(run->stream.has_value(), stored->stream.has_value());
  if (run->stream && stored->stream) {
    EXPECT_EQ(run->stream->memories, stored->stream->memories);
  }
  return true;
}

/// Models with different properties: links that take no time, with activations as the unit of memory; slow
/// messages; stages that take no time; cloned weights.
const std::vector<std::string> kTurnModels = {
    "",
    "model: {stages: {forward: 3 ms, backward: 5 ms, kept: 6 MB, transient: 9 MB, activation: 7 MB}}\n"
    "cluster: {preset: uniform, bandwidth: 1 GB/s, latency: 2 ms, memory: 30 MB}\n",
    "model: {stages: {forward: 0 ms, backward: 5 ms, kept: 6 MB, activation: 1 MB}}\n",
    "model: {stages: {forward: 3 ms, backward: 6 ms, kept: 1 MB, recomputed: 5 MB, transient: 4 MB, "
    "recomputed_at_once: 3 MB}}\n",
    "model: {stages: {forward: 3 ms, backward: 7 ms, kept: 5 MB, weights: 2 MB}}\n"
    "training: {weight_versions: cloned}\n"};

TEST(TurnRun, SaysWhatAStoredRunSaysOfEveryGenerator) {
  int compared = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    const char* const chunks = takes_chunks(schedule) ? ", virtual_stages: 2" : "";
    for (const int stages : {1, 2, 4}) {
      for (const int microbatches : {1, 3, 4, 9}) {
        for (const std::string& model : kTurnModels) {
          const std::string text = fmt::format("{}schedule: {{name: {}, stages: {}, microbatches: {}{}}}\n",
                                               model, schedule.name, stages, microbatches, chunks);
          SCOPED_TRACE(text);
          compared += agrees(turn_scenario(text), {}) ? 1 : 0;
          ASSERT_FALSE(HasFailure());
        }
      }
    }
  }
  EXPECT_GT(compared, 600);
}

TEST(TurnRun, KnowsRecomputationAndBarriers) {
  const std::string model =
      "model: {stages: {forward: 3 ms, backward: 5 ms, kept: 6 MB, activation: 1 MB}}\n";
  const std::string shape = "schedule: {name: 1f1b, stages: 4, microbatches: 8";
  EXPECT_TRUE(agrees(turn_scenario(model + shape + ", checkpoint: always}\n"), {}));
  EXPECT_TRUE(agrees(turn_scenario(model + shape + ", barrier: true}\n"), {}));
}

TEST(TurnRun, GivesWhatIsAskedForAndNoMore) {
  const Scenario scenario = turn_scenario("schedule: {name: zb-h1, stages: 4, microbatches: 8}\n");
  EXPECT_TRUE(agrees(scenario, {.memory = {.samples = false}}));
  EXPECT_TRUE(agrees(scenario, {.memory = {}, .steady = SteadyState::skip, .digest = ProgramDigest::skip}));
  EXPECT_TRUE(
      agrees(scenario, {.engine = Engine::critical_path, .memory = {}, .timeline = TimelineKept::none}));
}

TEST(TurnRun, AStreamThatSaysNoRateIsStored) {
  const Scenario scenario = turn_scenario("schedule: {name: 1f1b-rr, stages: 2, microbatches: 64}\n");
  SimulateOptions options;
  EXPECT_EQ(planned(scenario, options)->engine, RunEngine::turns);
  options.stream_of = [](auto&&...) { return std::optional<EndlessStream>(); };
  EXPECT_EQ(planned(scenario, options)->engine, RunEngine::tape) << "whose own microbatches say one";
  const auto stored = predict(scenario, options);
  ASSERT_TRUE(stored);
  EXPECT_GT(stored->result.throughput.steady_samples_per_second.value_or(0), 0);
}

TEST(TurnRun, SaysThatItsTurnsStall) {
  Experiment stalling =
      prepare(turn_scenario("schedule: {name: gpipe, stages: 2, microbatches: 2}\n"), ProgramForm::lists)
          .value();
  // Rank 0 now waits for a gradient before it sends the activation from which the gradient follows.
  std::vector<Action>& list = stalling.program.ranks.front();
  std::ranges::reverse(list);
  const auto run = turn_run(stalling, {}, std::nullopt);
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().message, "ranks wait for each other");
}

// The run for a point of a sweep uses a tape of placement rounds and no lowered program. Its figures equal
// those of a stored run.

Scenario row_scenario(const std::string& text) {
  auto loaded = parse_scenario(text, "row.yaml", ".");
  EXPECT_TRUE(loaded) << loaded.error();
  return *loaded;
}

const SimulateOptions kRow{
    .memory = {.samples = false}, .timeline = TimelineKept::none, .figures = WantedFigures::of_rows};
const SimulateOptions kRun{.memory = {.samples = false}};  // computes figures from spans

/// Compares the run for a point with the stored run of the same scenario. Returns false if another engine
/// than `engine` is chosen.
bool agrees(const Scenario& scenario, RunEngine engine = RunEngine::turns) {
  const auto plan = planned(scenario, kRow);
  if (!plan || plan->engine != engine) return false;
  const auto row = predict(scenario, kRow);
  const auto run = predict_stored(scenario, kRun);
  EXPECT_EQ(row.has_value(), run.has_value());
  if (!row || !run) return true;
  const Result& made = row->result;
  const Result& expected = run->result;
  EXPECT_EQ(made.makespan_ns, expected.makespan_ns);
  EXPECT_EQ(made.bubble, expected.bubble);
  EXPECT_EQ(made.throughput, expected.throughput) << "the steady rate, too";
  EXPECT_EQ(made.engine, expected.engine);
  EXPECT_EQ(made.link_sharing, expected.link_sharing);
  EXPECT_EQ(made.notes, expected.notes);
  EXPECT_EQ(made.ranks.size(), expected.ranks.size());
  for (std::size_t rank = 0; rank < made.ranks.size(); ++rank) {
    EXPECT_EQ(made.ranks[rank].busy_ns, expected.ranks[rank].busy_ns) << rank;
    EXPECT_EQ(made.ranks[rank].memory.peak_bytes, expected.ranks[rank].memory.peak_bytes) << rank;
    EXPECT_EQ(made.ranks[rank].memory.capacity, expected.ranks[rank].memory.capacity) << rank;
    EXPECT_EQ(made.ranks[rank].memory.unit, expected.ranks[rank].memory.unit) << rank;
  }
  return true;
}

/// Models with different properties: links that take no time, with activations as the unit of memory; stages
/// and edges with bytes; slow messages; stages that take no time; recomputation in I; cloned weights.
const std::vector<std::string> kModels = {
    "",
    "model: {stages: {forward: 3 ms, backward: 7 ms, kept: 5 MB, weights: 2 MB, activation: 1 MB}}\n",
    "model: {stages: {forward: 3 ms, backward_input: 4 ms, backward_weight: 2 ms, kept: 6 MB, "
    "released_by_input: 2 MB, weights: 3 MB}}\ncluster: {preset: uniform, latency: 1 ms}\n",
    "model: {stages: {forward: 3 ms, backward: 5 ms, kept: 6 MB, transient: 9 MB, activation: 7 MB}}\n"
    "cluster: {preset: uniform, bandwidth: 1 GB/s, latency: 2 ms, memory: 30 MB}\n",
    "model: {stages: {forward: 0 ms, backward: 5 ms, kept: 6 MB}}\n",
    "model: {stages: {forward: 3 ms, backward: 6 ms, kept: 1 MB, recomputed: 5 MB, transient: 4 MB, "
    "recomputed_at_once: 3 MB, activation: 1 MB}}\ncluster: {preset: uniform, bandwidth: 4 GB/s}\n",
    "model: {stages: {forward: 3 ms, backward_input: 0 ms, backward_weight: 0 ms, kept: 1 MB, recomputed: 5 "
    "MB, "
    "step: 1 ms}}\n",
    "model: {stages: {forward: 3 ms, backward: 7 ms, kept: 5 MB, weights: 2 MB}}\n"
    "training: {weight_versions: cloned}\n"};

TEST(RowRun, SaysWhatTheRunOfItsProgramSaysOnEveryGenerator) {
  int compared = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    for (const std::int32_t stages : {1, 2, 3, 4, 8}) {
      for (const std::int32_t microbatches : {1, 2, 4, 6, 16}) {
        for (const std::string& model : kModels) {
          const Scenario point = row_scenario(model + "schedule: {name: " + std::string(schedule.name) +
                                              ", stages: " + std::to_string(stages) +
                                              ", microbatches: " + std::to_string(microbatches) +
                                              (takes_chunks(schedule) ? ", virtual_stages: 2" : "") + "}\n");
          SCOPED_TRACE(testing::Message()
                       << schedule.name << " K=" << stages << " M=" << microbatches << " " << model);
          compared += agrees(point) ? 1 : 0;
          ASSERT_FALSE(HasFailure());
        }
      }
    }
  }
  EXPECT_GT(compared, 1500);
}

// With many microbatches, a streamed walk jumps over most of them, so it is faster than a tape.
TEST(RowRun, OfManyMicrobatchesIsStreamedWithTheSameFigures) {
  int compared = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    for (const std::string& model : {kModels[0], kModels[1], kModels[3], kModels[5]}) {
      const Scenario point = row_scenario(model + "schedule: {name: " + std::string(schedule.name) +
                                          ", stages: 4, microbatches: 2400" +
                                          (takes_chunks(schedule) ? ", virtual_stages: 2" : "") + "}\n");
      SCOPED_TRACE(testing::Message() << schedule.name << " " << model);
      compared += agrees(point, RunEngine::stream) ? 1 : 0;
      ASSERT_FALSE(HasFailure());
    }
  }
  EXPECT_GT(compared, 20);
}

// In a phase of one rank, a message may arrive before or after a transfer to the rank starts. Random costs
// give both orders.
TEST(PhasePeaks, AreThePeaksOfStoredRunsForRandomCosts) {
  int compared = 0;
  for (const ScheduleInfo& schedule : schedule_table()) {
    for (std::uint32_t seed = 1; seed <= 40; ++seed) {
      const auto program = generate(
          schedule.name, {.stages = 4, .microbatches = 8, .virtual_stages = chunks_to_try(schedule)});
      ASSERT_TRUE(program) << program.error();
      const ChannelModel model = kChannelModels[seed % kChannelModels.size()];
      SCOPED_TRACE(testing::Message() << schedule.name << " seed " << seed << " " << to_text(model));
      const auto turns = compile_turns(*program, {.model = model});
      if (!turns || turns->has_collectives) continue;
      const CostTable costs = uneven_costs(*program, seed);
      const Cluster links = uniform_links(program->rank_count(), 1e9 / seed, 7);
      Experiment experiment = experiment_of(lower(*program).value(), costs, links);
      experiment.channels = {.model = model};
      const auto peaks = phase_peaks(*program, costs, *turns, tape_costs(turns->tape, experiment));
      if (!peaks) continue;
      SimulateOptions options = kRun;
      options.engine = Engine::critical_path;  // the tape treats no links as shared
      const Result stored = simulate(experiment, options).value();
      for (std::size_t rank = 0; rank < peaks->size(); ++rank)
        EXPECT_EQ((*peaks)[rank], stored.ranks[rank].memory.peak_bytes) << rank;
      ASSERT_FALSE(HasFailure());
      ++compared;
    }
  }
  EXPECT_GT(compared, 150);
}

TEST(RowRun, KnowsRecomputationAndBarriers) {
  const std::string model =
      "model: {stages: {forward: 3 ms, backward: 5 ms, kept: 6 MB, activation: 1 MB}}\n";
  EXPECT_TRUE(agrees(
      row_scenario(model + "schedule: {name: 1f1b, stages: 4, microbatches: 8, checkpoint: always}\n")));
  EXPECT_TRUE(
      agrees(row_scenario(model + "schedule: {name: 1f1b, stages: 4, microbatches: 8, barrier: true}\n")));
}

TEST(RowRun, KnowsStagesWithoutALayer) {
  // The first stage takes no time, like a stage with only the embedding, but its STEP does.
  const std::string times =
      "model: {stages: {forward: [0 ms, 3 ms, 2 ms, 3 ms], backward_input: [0 ms, 4 ms, 3 ms, 3 ms], "
      "backward_weight: [0 ms, 2 ms, 3 ms, 2 ms], step: 1 ms, kept: [1 MB, 6 MB, 5 MB, 4 MB], "
      "transient: [8 MB, 1 MB, 2 MB, 3 MB], weights: 3 MB, activation: 2 MB}}\n"
      "cluster: {preset: uniform, bandwidth: 4 GB/s, latency: 1 ms}\n";
  for (const std::string_view schedule : {"gpipe", "1f1b", "zb-h1", "zb-h2", "eager-1f1b"}) {
    for (const std::int32_t microbatches : {1, 2, 5, 9}) {
      EXPECT_TRUE(agrees(row_scenario(times + "schedule: {name: " + std::string(schedule) +
                                      ", stages: 4, microbatches: " + std::to_string(microbatches) + "}\n")))
          << schedule << " " << microbatches;
    }
  }
  EXPECT_TRUE(agrees(row_scenario(times + "schedule: {name: zb-v, stages: 2, microbatches: 6}\n")));
  EXPECT_TRUE(agrees(row_scenario(
      times + "schedule: {name: interleaved, stages: 2, virtual_stages: 2, microbatches: 6}\n")));
}

}  // namespace
}  // namespace penstock
