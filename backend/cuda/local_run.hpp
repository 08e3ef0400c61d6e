#pragma once
// `cuda-local`: one program on one GPU that is cut into as many partitions as there are ranks, or on as many
// GPUs, by threads of this process.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "backend/cuda/device_codec.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/measured_run.hpp"
#include "backend/executor/module_family.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

/// What ranks on GPUs compute with, and how their messages are packed.
struct CudaModules {
  std::unique_ptr<ModuleFamily> family;
  std::unique_ptr<DeviceCodec> codec{};  ///< null where all payloads are null
};
/// Makes them for workers, which outlive them; places are by rank and empty for ranks of other processes.
/// Error: what the experiment asks for and cannot be had.
using MakeCudaModules = std::function<tl::expected<CudaModules, std::string>(
    const std::vector<std::optional<CudaPlace>>& places)>;

/// measure() on the GPUs of this process. RunFault::unavailable, with the reason, where there is no GPU, or
/// none that holds so many workers. Links whose times `pace` gives are emulated; where it gives none,
/// messages take what the copies take.
tl::expected<std::optional<Result>, RunError> run_on_cuda_local(const Experiment& experiment,
                                                                const PaceOfLinks& pace,
                                                                const RunOptions& options,
                                                                const MakeCudaModules& make);

/// Like run_on_cuda_local(), on workers that the caller keeps over several runs. Requires a worker for each
/// rank.
tl::expected<std::optional<Result>, RunError> run_on_workers(const Experiment& experiment,
                                                             const PaceOfLinks& pace,
                                                             const RunOptions& options,
                                                             const CudaWorkers& workers,
                                                             const MakeCudaModules& make);

/// Has CUDA give each stream a hardware queue of its own, up to 32. To be called before CUDA starts.
void ask_for_hardware_queues();

}  // namespace penstock
