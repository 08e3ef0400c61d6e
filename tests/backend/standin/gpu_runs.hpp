#pragma once
// Programs on the stand-in: over copies on streams by the product's own call, and over NCCL with ranks as
// threads of one process. To be called inside controlled().

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/local_run.hpp"
#include "backend/executor/measured_run.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

struct GpuRun {
  std::string error;           ///< empty: it ended well
  std::vector<Timeline> runs;  ///< those that ended, in their order
};

/// `runs` times by the product's run_on_nccl(), but for its processes: communicators are opened by a thread a
/// rank.
GpuRun run_over_nccl(const Experiment& experiment, const MakeCudaModules& make, std::int32_t runs,
                     std::chrono::nanoseconds deadline = std::chrono::seconds(10));

/// The same over copies on streams. Of `runs` all are there.
GpuRun run_over_copies(const Experiment& experiment, const PaceOfLinks& pace, const MakeCudaModules& make,
                       std::int32_t runs, std::chrono::nanoseconds deadline = std::chrono::seconds(10));

/// Occupy kernels.
MakeCudaModules occupying(const Experiment& experiment);

/// 1F1B and others of 5 ms forwards, 10 ms backwards and messages of so many bytes.
Experiment gpu_experiment(const std::string& schedule, std::int32_t stages, std::int32_t microbatches,
                          Bytes message_bytes = Bytes{1} << 20);

}  // namespace penstock
