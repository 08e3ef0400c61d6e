// Measures programs that are too long to be stored: streamed action by action, and with jumps over what
// repeats.

#include <benchmark/benchmark.h>

#include <ctime>
#include <string>
#include <utility>

#include "bench/loop_marks.hpp"
#include "bench/sizes.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/engines/streamed_walk.hpp"
#include "topology/presets.hpp"

namespace penstock {
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

/// Measures streams of a program. `actions` counts all of it, and `walked` the actions that were not jumped
/// over.
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
}  // namespace penstock
