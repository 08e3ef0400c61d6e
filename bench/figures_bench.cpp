// From a scenario to all figures, without a timeline; the same through a timeline of all spans is the stated
// baseline.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/mean_seconds.hpp"
#include "bench/sizes.hpp"
#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/engines/engines.hpp"
#include "sim/memory/memory.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {
namespace {

const SimulateOptions kFigures{.memory = {.samples = false}, .timeline = TimelineKept::none};

/// Figures by way of a timeline, but for the steady rate, which takes a run of many passes more.
Result figures_of_timeline(const Experiment& experiment) {
  Timeline timeline = *critical_path(experiment);
  auto memories = memory_of(timeline, experiment, {.samples = false});
  return summarize(
      std::move(timeline),
      {.program = experiment.program, .costs = experiment.costs, .memories = std::move(memories)});
}

bool equal_figures(const Result& a, const Result& b) {
  const auto equal_rank = [](RankReport x, RankReport y) {
    x.device = y.device = "";
    return x == y;
  };
  return a.makespan_ns == b.makespan_ns && a.bubble == b.bubble &&
         std::ranges::equal(a.ranks, b.ranks, equal_rank);
}

/// What `penstock simulate` computes after its program is made.
void figures_of_program(benchmark::State& state) {
  const Experiment experiment = experiment_of(state);
  if (!equal_figures(*simulate(experiment, kFigures), figures_of_timeline(experiment)))
    return state.SkipWithError("a timeline has other figures");
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(simulate(experiment, kFigures));
  clock.report(experiment.program);
  const int runs = std::max(1, 200'000 / static_cast<int>(experiment.program.ranks.size() * state.range(1)));
  SimulateOptions same = kFigures;
  same.steady = SteadyState::skip;
  state.counters["timeline_x"] = mean_seconds(runs, [&] { return figures_of_timeline(experiment); }) /
                                 mean_seconds(runs, [&] { return simulate(experiment, same); });
}
BENCHMARK(figures_of_program)->Name("figures/1f1b")->Apply(pipeline_sizes);

/// Name, K and M to all figures: made, proven, lowered, priced, run.
void figures_of_name(benchmark::State& state, const std::string& schedule) {
  const Scenario scenario =
      parse_scenario(fmt::format("schedule: {{name: {}, stages: {}, microbatches: {}}}\n", schedule,
                                 state.range(0), state.range(1)),
                     "bench", ".")
          .value();
  const Experiment experiment = prepare(scenario).value();
  ActionClock clock(state);
  for (auto _ : state) benchmark::DoNotOptimize(simulate_scenario(scenario, kFigures));
  clock.report(experiment.program);
}
BENCHMARK_CAPTURE(figures_of_name, gpipe, "gpipe")->Name("figures/whole/gpipe")->Apply(pipeline_sizes);
BENCHMARK_CAPTURE(figures_of_name, one_f_one_b, "1f1b")->Name("figures/whole/1f1b")->Apply(pipeline_sizes);
BENCHMARK_CAPTURE(figures_of_name, zbh1, "zb-h1")->Name("figures/whole/zb-h1")->Apply(pipeline_sizes);

}  // namespace
}  // namespace penstock
