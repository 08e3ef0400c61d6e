#pragma once
// The `cuda-local` backend. The ranks are threads of this process. They share one GPU that is divided into
// one partition for each rank, or each rank has its own GPU.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/measured_run.hpp"
#include "backend/executor/module_family.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

/// The stage modules that ranks run on GPUs, and the codec that packs the modules' messages.
struct CudaModules {
  std::unique_ptr<ModuleFamily> family;
  std::unique_ptr<DeviceCodec> codec{};  ///< null if all payloads are null
};
/// A function that makes the stage modules. It gets the place of each rank, which is absent for a rank in
/// another process. The workers outlive the modules. If all places are absent, the function must not start
/// CUDA, because the caller may fork afterwards. Fails if the experiment needs something that is not
/// available.
using MakeCudaModules = std::function<tl::expected<CudaModules, std::string>(
    const std::vector<std::optional<CudaPlace>>& places)>;

/// Measures the experiment on the GPUs of this process. A link for which `pace` has times is emulated. On
/// all other links, a message takes as long as its copy. Error ErrorKind::not_available: there is no GPU,
/// or no GPU is large enough for all workers.
tl::expected<std::optional<Result>, UserError> run_on_cuda_local(const Experiment& experiment,
                                                                 const PaceOfLinks& pace,
                                                                 const RunOptions& options,
                                                                 const MakeCudaModules& make);

/// Measures the same as run_on_cuda_local(), but uses workers of the caller, who can use them for several
/// runs. Requires one worker for each rank.
tl::expected<std::optional<Result>, UserError> run_on_workers(const Experiment& experiment,
                                                              const PaceOfLinks& pace,
                                                              const RunOptions& options,
                                                              const CudaWorkers& workers,
                                                              const MakeCudaModules& make);

/// Asks CUDA for a separate hardware queue for each stream. The processes on one GPU together ask for at
/// most 32 queues. More would not fit under MPS: on an H100, the fourth process with 32 queues got
/// cudaErrorMemoryAllocation. A CUDA_DEVICE_MAX_CONNECTIONS that the user has set is not changed. Must be
/// called before CUDA starts.
void ask_for_hardware_queues(std::int32_t processes_per_gpu = 1);

}  // namespace penstock
