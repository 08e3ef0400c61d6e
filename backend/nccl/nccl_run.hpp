#pragma once
// `nccl`: one program by a process a rank, each with a GPU of its own.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "backend/cuda/local_run.hpp"
#include "backend/executor/measured_run.hpp"
#include "backend/process/launch_environment.hpp"
#include "backend/process/process_execution.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"

namespace penstock {

/// How a launcher placed this process.
struct NcclPlace {
  ProcessPlace process;
  std::int32_t device = 0;                   ///< its number on this host
  std::optional<std::uint16_t> agent_store;  ///< the launcher's own TCPStore listens on this port
  std::string store_prefix;                  ///< of keys in that store
};

/// Reads what launched_place() reads, and LOCAL_RANK (torchrun), OMPI_COMM_WORLD_LOCAL_RANK or
/// SLURM_LOCALID for the device, which is the rank where none of them is set. Nothing when no launcher
/// started this process. Error: which variable is missing or wrong, or that the launcher started another
/// number of processes than `ranks`.
tl::expected<std::optional<NcclPlace>, std::string> nccl_place(const Environment& environment,
                                                               std::int32_t ranks);

/// measure() in children of this process, which must have no other threads and must not have started CUDA;
/// with a `place`, in processes that somebody else has started, of which only rank 0 has a Result. `make` is
/// called in each rank's process, and once here, without a place. RunFault::unavailable, with the reason,
/// where there are fewer GPUs than ranks.
tl::expected<std::optional<Result>, RunError> run_on_nccl(const Experiment& experiment,
                                                          const PaceOfLinks& pace, const RunOptions& options,
                                                          const MakeCudaModules& make,
                                                          const std::optional<NcclPlace>& place);

}  // namespace penstock
