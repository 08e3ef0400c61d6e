#pragma once
// Functions that all benchmarks use: marks around the measured loop, the time of other code for ratios, and
// the measured programs.

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <string>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/load.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

/// These functions must be called directly before and after a benchmark's loop. They do nothing.
void loop_begins();
void loop_ends();

// Measures other code in the same run as a benchmark, to compute ratios.

/// Returns the mean processor time of `runs` calls of `run`, in seconds.
template <typename Run>
double mean_seconds(int runs, const Run& run) {
  const std::clock_t begin = std::clock();
  for (int i = 0; i < runs; ++i) benchmark::DoNotOptimize(run());
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / runs;
}

// The measured programs, and the figure that all benchmarks report.

/// Returns the shape with state.range(0) stages and state.range(1) microbatches.
inline Shape shape_of(const benchmark::State& state) {
  return {.stages = static_cast<std::int32_t>(state.range(0)),
          .microbatches = static_cast<std::int32_t>(state.range(1))};
}

inline std::int64_t compute_actions(const Program& program) {
  std::int64_t count = 0;
  for (const auto& actions : program.ranks) {
    count += std::ranges::count_if(actions, [](const Action& action) { return is_compute(action.kind); });
  }
  return count;
}

/// A clock for the processor time of a benchmark's loop. It must be created directly before the loop.
class ActionClock {
 public:
  explicit ActionClock(benchmark::State& state) : state_(state), begin_(std::clock()) { loop_begins(); }

  /// Sets two counters: `actions`, the number of the program's actions, and `ns/action`, the nanoseconds for
  /// each action.
  void report(const Program& program) {
    loop_ends();
    const double spent_ns = 1e9 * static_cast<double>(std::clock() - begin_) / CLOCKS_PER_SEC;
    const auto actions = static_cast<double>(compute_actions(program));
    state_.counters["actions"] = actions;
    state_.counters["ns/action"] = spent_ns / static_cast<double>(state_.iterations()) / actions;
  }

 private:
  benchmark::State& state_;
  std::clock_t begin_;
};

/// Returns the experiment of a schedule with the shape of `state`. `options` has more keys of `schedule`,
/// each after a comma.
inline Experiment experiment_of(const benchmark::State& state, const std::string& schedule = "1f1b",
                                const std::string& options = "") {
  const std::string text = fmt::format(
      "model: {{stages: {{forward: 1 ms, backward: 2 ms, kept: 1 B}}}}\n"
      "cluster: {{preset: uniform, latency: 4 us}}\n"
      "schedule: {{name: {}, stages: {}, microbatches: {}{}}}\n",
      schedule, state.range(0), state.range(1), options);
  return prepare(parse_scenario(text, "bench", ".").value()).value();
}

/// Adds a small, a medium and a large size: 64 stages with 512 microbatches are 65,600 compute actions.
inline void pipeline_sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({4, 8})
      ->Args({16, 64})
      ->Args({64, 512})
      ->ArgNames({"K", "M"})
      ->Unit(benchmark::kMicrosecond);
}

}  // namespace penstock
