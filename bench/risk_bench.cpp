// Measures 64 trials of noise by monte_carlo(), which times eight at once on one tape and uses all
// processors. The baseline walks over the flat program for each trial (walk_x). Both draw the same noise, so
// their sorted makespans must be equal to the nanosecond.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "bench/mean_seconds.hpp"
#include "bench/sizes.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "sim/network/message_costs.hpp"
#include "sim/risk/monte_carlo.hpp"

namespace penstock {
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
