// The engines on one program, and the slow reference engine of the tests beside them.

#include <benchmark/benchmark.h>

#include "bench/mean_seconds.hpp"
#include "bench/sizes.hpp"
#include "report/metrics.hpp"
#include "scenarios/experiment.hpp"
#include "sim/engines.hpp"
#include "sim/memory.hpp"
#include "sim/simulate.hpp"
#include "sim/steady_state.hpp"
#include "tests/sim/reference_engine.hpp"

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

/// The stated baseline. The counters say how many times as fast the engines are, measured in this run.
void baseline_reference_engine(benchmark::State& state) {
  const Experiment experiment = experiment_of(state);
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(reference_engine(experiment));
  clock.report(experiment.program);
  const double reference = mean_seconds(3, [&] { return reference_engine(experiment); });
  state.counters["critical_path_x"] =
      reference / mean_seconds(500, [&] { return critical_path(experiment); });
  state.counters["event_x"] = reference / mean_seconds(500, [&] { return event_simulation(experiment); });
}
BENCHMARK(baseline_reference_engine)
    ->Args({4, 8})
    ->Args({8, 16})
    ->ArgNames({"K", "M"})
    ->Unit(benchmark::kMicrosecond);

void metrics_of_timeline(benchmark::State& state) {
  const Experiment experiment = experiment_of(state);
  const Timeline timeline = *critical_path(experiment);
  const MetricsInput input = {.program = experiment.program, .costs = experiment.costs};
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(summarize(timeline, input));
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

/// Everything that `penstock simulate` computes after reading its input.
void simulate_whole(benchmark::State& state) {
  const Experiment experiment = experiment_of(state);
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(simulate(experiment, {.memory = {.samples = false}}));
  clock.report(experiment.program);
}
BENCHMARK(simulate_whole)->Apply(pipeline_sizes);

}  // namespace
}  // namespace penstock
