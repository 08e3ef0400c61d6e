#pragma once
// Runs programs on the stand-in by the product's own functions. These functions must be called inside
// controlled().

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/cuda/local_run.hpp"
#include "backend/executor/measured_run.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"

/// Skips a test that needs hooks before memory accesses: to find races on host memory, or to interrupt a
/// thread that polls an atomic.
#ifdef PENSTOCK_STANDIN_WITHOUT_HOOKS
#define PENSTOCK_NEEDS_HOOKS() GTEST_SKIP() << "beside another sanitizer there are no hooks before accesses"
#else
#define PENSTOCK_NEEDS_HOOKS() static_cast<void>(0)
#endif

namespace penstock {

struct GpuRun {
  std::string error;  ///< empty: it ended well
  Timeline timeline;  ///< of the last run
  std::vector<std::string> notes{};
};

/// Runs the experiment `runs` times with the product's run_on_nccl(), whose processes are threads here
/// (replaced_calls.cpp). Of `options`, the numbers of runs are replaced.
GpuRun run_over_nccl(const Experiment& experiment, const MakeCudaModules& make, std::int32_t runs,
                     RunOptions options = {.deadline = std::chrono::seconds(10)});

/// Like run_over_nccl(), but with run_on_cuda_local() and links that take no time.
GpuRun run_over_copies(const Experiment& experiment, const MakeCudaModules& make, std::int32_t runs,
                       std::chrono::nanoseconds deadline = std::chrono::seconds(10));

/// Returns a function that makes occupy modules.
MakeCudaModules occupying(const Experiment& experiment);

/// Returns an experiment with forwards of 5 ms, backwards of 10 ms, and messages of `message_bytes` bytes.
Experiment gpu_experiment(const std::string& schedule, std::int32_t stages, std::int32_t microbatches,
                          Bytes message_bytes = Bytes{1} << 20);

/// Returns 1F1B with two stages and two microbatches. Forwards take 1 ms and backwards 2 ms. All sizes are 64
/// bytes.
Experiment small_experiment();

}  // namespace penstock
