// Measures the number of a sweep's points per second, on all processors and on one. A point is a schedule
// with K and M, on links that take no time:
//
//     sweep()           name, K, M -> turns write a tape -> the figures of a row
//     predict_stored()  name, K, M -> lowered lists -> flat -> tape -> spans -> all figures
//
// lists_x is the time of predict_stored() relative to sweep().

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <tbb/global_control.h>

#include "bench/measure.hpp"
#include "report/result/sweep_table.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/streamed_walk.hpp"
#include "sim/network/message_costs.hpp"
#include "sim/risk/risk.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/sweep/sweep.hpp"
#include "topology/presets.hpp"

namespace penstock {

namespace {

/// Returns the grid K = 1..16, M = 1, 2, 4 .. 128, which has 128 points for each schedule.
SweepGrid small_points(std::vector<std::string> schedules) {
  SweepGrid grid{.schedules = std::move(schedules), .stages = {}, .microbatches = {}};
  for (std::int32_t stages = 1; stages <= 16; ++stages) grid.stages.push_back(stages);
  for (std::int32_t microbatches = 1; microbatches <= 128; microbatches *= 2)
    grid.microbatches.push_back(microbatches);
  return grid;
}

/// Sweeps the grid once in each iteration.
void count_points(benchmark::State& state, const SweepGrid& grid) {
  std::size_t points = 0;
  loop_begins();
  for (auto _ : state) points += sweep(Scenario{}, grid).rows.size();
  loop_ends();
  const auto all = static_cast<double>(points);
  state.counters["points"] = benchmark::Counter(all, benchmark::Counter::kAvgIterations);
  state.counters["points/s"] = benchmark::Counter(all, benchmark::Counter::kIsRate);
}

/// Predicts the points of the grid one by one from their lowered programs. predict() would stream them
/// instead.
Ns runs_of(const SweepGrid& grid) {
  Ns sum = 0;
  for (const std::int32_t stages : grid.stages) {
    for (const std::int32_t microbatches : grid.microbatches) {
      Scenario point;
      point.schedule = grid.schedules.front();
      point.shape.stages = stages;
      point.batch.microbatches = microbatches;
      const auto run = predict_stored(point, {.memory = {.samples = false}, .timeline = TimelineKept::none});
      sum += run->result.makespan_ns;
    }
  }
  return sum;
}

void sweep_of_384_points(benchmark::State& state) {
  count_points(state, small_points({"naive", "gpipe", "1f1b"}));
}
BENCHMARK(sweep_of_384_points)->Unit(benchmark::kMillisecond)->UseRealTime();

/// Measures on one processor. points/s counts processor time, because only this thread works.
void sweep_on_one_core(benchmark::State& state, const std::string& schedule) {
  const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
  const SweepGrid grid = small_points({schedule});
  count_points(state, grid);
  const double swept = mean_seconds(5, [&] { return sweep(Scenario{}, grid); });
  state.counters["lists_x"] = mean_seconds(5, [&] { return runs_of(grid); }) / swept;
}
BENCHMARK_CAPTURE(sweep_on_one_core, naive, "naive")->Name("sweep/naive")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(sweep_on_one_core, gpipe, "gpipe")->Name("sweep/gpipe")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(sweep_on_one_core, one_f_one_b, "1f1b")->Name("sweep/1f1b")->Unit(benchmark::kMillisecond);

}  // namespace

// Measures programs that are too long to be stored. They are streamed action by action, with and without
// jumps over repetitions.

namespace {

Experiment long_experiment(const benchmark::State& state, const std::string& schedule, Ns latency_ns) {
  RolledProgram rolled = *generate_loops(schedule, shape_of(state));
  CostTable costs = unit_costs(rolled.program);
  const Cluster cluster =
      *uniform_cluster({.devices = rolled.program.rank_count(), .latency_ns = latency_ns});
  return {.name = schedule,
          .program = std::move(rolled.program),
          .costs = std::move(costs),
          .cluster = cluster,
          .channels = {},
          .notes = {},
          .loops = std::move(rolled.lists)};
}

/// Measures the streaming of a program. `actions` is the number of all its actions, and `walked` is the
/// number of actions without the jumps.
void stream_of(benchmark::State& state, const Experiment& experiment, Jumps jumps) {
  StreamedRun run;
  loop_begins();
  const std::clock_t start = std::clock();
  for (auto _ : state) run = *stream(experiment, experiment.loops, jumps);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  loop_ends();
  const auto walked = static_cast<double>(run.actions);
  const auto rounds = static_cast<double>(state.iterations());
  state.counters["actions"] = walked + static_cast<double>(run.jumped);
  state.counters["walked"] = walked;
  state.counters["ns/action"] = seconds * 1e9 / (rounds * (walked + static_cast<double>(run.jumped)));
  state.counters["ns/walked"] = seconds * 1e9 / (rounds * walked);
}

void streamed(benchmark::State& state, const std::string& schedule, Ns latency_ns) {
  stream_of(state, long_experiment(state, schedule, latency_ns), Jumps::left_out);
}
void jumped(benchmark::State& state, const std::string& schedule, Ns latency_ns) {
  stream_of(state, long_experiment(state, schedule, latency_ns), Jumps::taken);
}

BENCHMARK_CAPTURE(streamed, 1f1b, "1f1b", 0)
    ->Name("steady/streamed/1f1b")
    ->ArgNames({"K", "M"})
    ->Args({16, 1024})
    ->Args({64, 4096});
BENCHMARK_CAPTURE(jumped, 1f1b, "1f1b", 0)
    ->Name("steady/jumped/1f1b")
    ->ArgNames({"K", "M"})
    ->Args({64, 4096})
    ->Args({64, 1 << 20});
BENCHMARK_CAPTURE(jumped, 1f1b_latency, "1f1b", 4000)
    ->Name("steady/jumped/1f1b_latency")
    ->ArgNames({"K", "M"})
    ->Args({64, 1 << 20});
BENCHMARK_CAPTURE(jumped, zb_h1, "zb-h1", 0)
    ->Name("steady/jumped/zb_h1")
    ->ArgNames({"K", "M"})
    ->Args({64, 1 << 20});
BENCHMARK_CAPTURE(jumped, 1f1b_rr, "1f1b-rr", 0)
    ->Name("steady/jumped/1f1b_rr")
    ->ArgNames({"K", "M"})
    ->Args({64, 1 << 20});

}  // namespace

// Measures 64 trials of noise with monte_carlo(), which computes eight trials at once on one tape and uses
// all processors. The baseline walks over the flat program for each trial (walk_x). Both use the same random
// numbers, so their sorted makespans must be exactly equal.

namespace {

constexpr std::int32_t kTrials = 64;
constexpr Noise kNoise = {.jitter = 0.1, .straggler_chance = 0.1};

std::vector<Ns> walked_trials(const Experiment& experiment) {
  const FlatProgram flat =
      flatten(experiment.program, experiment.costs, {.channels = experiment.channels, .iterations = 1});
  const WalkDurations durations = walk_durations(experiment, flat);
  std::vector<Ns> makespans;
  for (std::uint64_t trial = 0; trial < kTrials; ++trial)
    makespans.push_back(
        last_end(walk(flat, disturbed(durations, flat, kNoise, trial), experiment.channels).value()));
  std::ranges::sort(makespans);
  return makespans;
}

void risk(benchmark::State& state) {
  const Experiment experiment = experiment_of(state);
  const auto run = [&] { return monte_carlo(experiment, kNoise, {.count = kTrials}).value(); };
  if (run().sorted != walked_trials(experiment))
    return state.SkipWithError("the trials and a walk for each of them have different makespans");
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(run());
  clock.report(experiment.program);
  const int runs = state.range(1) < 512 ? 20 : 1;
  state.counters["walk_x"] =
      mean_seconds(runs, [&] { return walked_trials(experiment); }) / mean_seconds(runs, run);
}
BENCHMARK(risk)->Name("risk/1f1b")->Apply(pipeline_sizes);

}  // namespace

}  // namespace penstock
