// Measures the engines on one program: longest paths over a tape, and a clock that goes from event to event.
// The baseline is a walk over the lists with a map of what has ended, as one would write it in a notebook
// (plain_walk.cpp). It must give the engine's timeline; critical_path_x and event_x are its time relative to
// the engines. Then it measures what is computed from a timeline: figures, memory, the steady period.

#include <benchmark/benchmark.h>

#include <algorithm>

#include "bench/mean_seconds.hpp"
#include "bench/plain_walk.hpp"
#include "bench/sizes.hpp"
#include "report/result/metrics.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "sim/engines/engines.hpp"
#include "sim/engines/steady_state.hpp"
#include "sim/memory/memory.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {
namespace {

void critical_path_engine(benchmark::State& state) {
  const Experiment experiment = experiment_of(state);
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(critical_path(experiment));
  clock.report(experiment.program);
}
BENCHMARK(critical_path_engine)->Apply(pipeline_sizes);

void event_engine(benchmark::State& state) {
  const Experiment experiment = experiment_of(state);
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(event_simulation(experiment));
  clock.report(experiment.program);
}
BENCHMARK(event_engine)->Apply(pipeline_sizes);

/// Measures the baseline. The counters are its time relative to the engines, measured in this run.
void baseline_plain_walk(benchmark::State& state) {
  const Experiment experiment = experiment_of(state);
  if (plain_walk(experiment) != critical_path(experiment))
    return state.SkipWithError("the engine and the plain walk have different timelines");
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(plain_walk(experiment));
  clock.report(experiment.program);
  const int runs = std::max(1, 200'000 / static_cast<int>(experiment.program.ranks.size() * state.range(1)));
  const double plain = mean_seconds(runs, [&] { return plain_walk(experiment); });
  state.counters["critical_path_x"] = plain / mean_seconds(runs, [&] { return critical_path(experiment); });
  state.counters["event_x"] = plain / mean_seconds(runs, [&] { return event_simulation(experiment); });
}
BENCHMARK(baseline_plain_walk)->Apply(pipeline_sizes);

void metrics_of_timeline(benchmark::State& state) {
  const Experiment experiment = experiment_of(state);
  const Timeline timeline = *critical_path(experiment);
  const RunFacts facts = {.program = experiment.program, .costs = experiment.costs};
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(summarize(timeline, facts));
  clock.report(experiment.program);
}
BENCHMARK(metrics_of_timeline)->Apply(pipeline_sizes);

void memory_of_timeline(benchmark::State& state) {
  const Experiment experiment = experiment_of(state);
  const Timeline timeline = *critical_path(experiment);
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(memory_of(timeline, experiment, {.samples = false}));
  clock.report(experiment.program);
}
BENCHMARK(memory_of_timeline)->Apply(pipeline_sizes);

void steady_period_of_program(benchmark::State& state) {
  const Experiment experiment = experiment_of(state);
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(steady_period(experiment, Engine::critical_path));
  clock.report(experiment.program);
}
BENCHMARK(steady_period_of_program)->Apply(pipeline_sizes);

/// Measures everything that simulate() computes for a prepared program.
void simulate_whole(benchmark::State& state) {
  const Experiment experiment = experiment_of(state);
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(simulate(experiment, {.memory = {.samples = false}}));
  clock.report(experiment.program);
}
BENCHMARK(simulate_whole)->Apply(pipeline_sizes);

}  // namespace
}  // namespace penstock
