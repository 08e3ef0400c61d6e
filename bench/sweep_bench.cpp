// Measures the points of a sweep per second, on all processors and on one. A point is K and M of a schedule
// on free links:
//
//     sweep()           name, K, M -> turns write a tape -> the figures of a row
//     predict_stored()  name, K, M -> lowered lists -> flat -> tape -> spans -> all figures
//
// lists_x is the time of the second relative to the first.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tbb/global_control.h>

#include "bench/loop_marks.hpp"
#include "bench/mean_seconds.hpp"
#include "report/result/sweep_table.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/runs/sweep.hpp"

namespace penstock {
namespace {

/// Returns K = 1..16, M = 1, 2, 4 .. 128 on free links: 128 points a schedule.
SweepGrid small_points(std::vector<std::string> schedules) {
  SweepGrid grid{.schedules = std::move(schedules), .stages = {}, .microbatches = {}};
  for (std::int32_t stages = 1; stages <= 16; ++stages) grid.stages.push_back(stages);
  for (std::int32_t microbatches = 1; microbatches <= 128; microbatches *= 2)
    grid.microbatches.push_back(microbatches);
  return grid;
}

/// Sweeps the grid once an iteration.
void count_points(benchmark::State& state, const SweepGrid& grid) {
  std::size_t points = 0;
  loop_begins();
  for (auto _ : state) points += sweep(Scenario{}, grid).rows.size();
  loop_ends();
  const auto all = static_cast<double>(points);
  state.counters["points"] = benchmark::Counter(all, benchmark::Counter::kAvgIterations);
  state.counters["points/s"] = benchmark::Counter(all, benchmark::Counter::kIsRate);
}

/// Predicts the same points one by one, each through its lowered program. predict() would stream them.
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
}  // namespace penstock
