#pragma once
// The `cuda-local` backend: one program on one GPU that is divided into as many partitions as there are
// ranks, or on as many GPUs, with the threads of this process.

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

/// The modules of ranks on GPUs, and the codec that packs their messages.
struct CudaModules {
  std::unique_ptr<ModuleFamily> family;
  std::unique_ptr<DeviceCodec> codec{};  ///< null if all payloads are null
};
/// A function that makes the modules. The workers outlive them. Places are by rank, and absent for ranks of
/// other processes. Error: what the experiment asks for and cannot get.
using MakeCudaModules = std::function<tl::expected<CudaModules, std::string>(
    const std::vector<std::optional<CudaPlace>>& places)>;

/// Calls measure() on the GPUs of this process. Fails with ErrorKind::not_available and the reason if there
/// is no GPU, or none that holds so many workers. Links with times in `pace` are emulated. Without times,
/// messages take as long as their copies.
tl::expected<std::optional<Result>, UserError> run_on_cuda_local(const Experiment& experiment,
                                                                 const PaceOfLinks& pace,
                                                                 const RunOptions& options,
                                                                 const MakeCudaModules& make);

/// Like run_on_cuda_local(), with workers that the caller uses for several runs. Requires a worker for each
/// rank.
tl::expected<std::optional<Result>, UserError> run_on_workers(const Experiment& experiment,
                                                              const PaceOfLinks& pace,
                                                              const RunOptions& options,
                                                              const CudaWorkers& workers,
                                                              const MakeCudaModules& make);

/// Asks CUDA for a hardware queue for each stream, up to 32. Must be called before CUDA starts.
void ask_for_hardware_queues();

}  // namespace penstock
