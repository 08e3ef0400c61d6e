// Points of a sweep a second, on all processors.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "report/result/sweep_table.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/runs/sweep.hpp"

namespace penstock {
namespace {

/// Three schedules, K = 1..16, M = 1, 2, 4 .. 128 on free links: 384 points.
void sweep_of_384_points(benchmark::State& state) {
  SweepGrid grid{.schedules = {"naive", "gpipe", "1f1b"}, .stages = {}, .microbatches = {}};
  for (std::int32_t stages = 1; stages <= 16; ++stages) grid.stages.push_back(stages);
  for (std::int32_t microbatches = 1; microbatches <= 128; microbatches *= 2)
    grid.microbatches.push_back(microbatches);
  std::size_t points = 0;
  for (auto _ : state) points += sweep(Scenario{}, grid).rows.size();
  state.counters["points/s"] = benchmark::Counter(static_cast<double>(points), benchmark::Counter::kIsRate);
}
BENCHMARK(sweep_of_384_points)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace penstock
