#pragma once
// Measures other code beside a benchmark, for ratios within one run.

#include <benchmark/benchmark.h>

#include <ctime>

namespace penstock {

/// Returns the mean processor time of `runs` calls of `run`, in seconds.
template <typename Run>
double mean_seconds(int runs, const Run& run) {
  const std::clock_t begin = std::clock();
  for (int i = 0; i < runs; ++i) benchmark::DoNotOptimize(run());
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / runs;
}

}  // namespace penstock
