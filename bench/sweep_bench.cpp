// Points of a sweep a second: on all processors, and on one.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tbb/global_control.h>

#include "report/result/sweep_table.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/runs/sweep.hpp"

namespace penstock {
namespace {

/// K = 1..16, M = 1, 2, 4 .. 128 on free links: 128 points a schedule.
SweepGrid small_points(std::vector<std::string> schedules) {
  SweepGrid grid{.schedules = std::move(schedules), .stages = {}, .microbatches = {}};
  for (std::int32_t stages = 1; stages <= 16; ++stages) grid.stages.push_back(stages);
  for (std::int32_t microbatches = 1; microbatches <= 128; microbatches *= 2)
    grid.microbatches.push_back(microbatches);
  return grid;
}

void count_points(benchmark::State& state, const SweepGrid& grid) {
  std::size_t points = 0;
  for (auto _ : state) points += sweep(Scenario{}, grid).rows.size();
  state.counters["points/s"] = benchmark::Counter(static_cast<double>(points), benchmark::Counter::kIsRate);
}

void sweep_of_384_points(benchmark::State& state) {
  count_points(state, small_points({"naive", "gpipe", "1f1b"}));
}
BENCHMARK(sweep_of_384_points)->Unit(benchmark::kMillisecond)->UseRealTime();

/// points/s is of processor time: nothing but this thread works.
void sweep_on_one_core(benchmark::State& state, const std::string& schedule) {
  const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
  count_points(state, small_points({schedule}));
}
BENCHMARK_CAPTURE(sweep_on_one_core, naive, "naive")->Name("sweep/naive")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(sweep_on_one_core, gpipe, "gpipe")->Name("sweep/gpipe")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(sweep_on_one_core, one_f_one_b, "1f1b")->Name("sweep/1f1b")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace penstock
