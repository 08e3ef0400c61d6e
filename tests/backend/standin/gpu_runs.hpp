#pragma once
// Programs on the stand-in, by the product's own calls. To be called inside controlled().

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/cuda/local_run.hpp"
#include "backend/executor/measured_run.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"

/// For tests that find races on host memory, or that need a thread which polls an atomic to give way.
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

/// The same by run_on_cuda_local(), on links that take no time.
GpuRun run_over_copies(const Experiment& experiment, const MakeCudaModules& make, std::int32_t runs,
                       std::chrono::nanoseconds deadline = std::chrono::seconds(10));

/// Occupy kernels.
MakeCudaModules occupying(const Experiment& experiment);

/// 1F1B and others of 5 ms forwards, 10 ms backwards and messages of so many bytes.
Experiment gpu_experiment(const std::string& schedule, std::int32_t stages, std::int32_t microbatches,
                          Bytes message_bytes = Bytes{1} << 20);

/// 1F1B of two stages and two microbatches, 1 and 2 ms, all sizes 64 bytes.
Experiment small_experiment();

}  // namespace penstock
