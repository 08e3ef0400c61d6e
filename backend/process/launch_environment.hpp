#pragma once
// Finds the rank of a process that a launcher started (torchrun, mpirun or srun), from environment variables.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "backend/process/process_execution.hpp"

namespace penstock {

/// A function that returns the value of an environment variable, or null if it is not set.
using Environment = std::function<const char*(const char* name)>;

/// The number of a process among those that a launcher started together.
struct LaunchedRank {
  std::int32_t rank = 0;
  std::int32_t size = 1;
  const char* size_variable = "";  ///< the variable that says the size
};

/// Reads the rank and the size from RANK and WORLD_SIZE (torchrun), OMPI_COMM_WORLD_RANK and _SIZE (Open
/// MPI), PMI_RANK and PMI_SIZE (MPICH), or SLURM_PROCID and SLURM_NTASKS. Returns nothing where no rank is
/// set. Error: the size is missing, or one of them is no number or out of range.
tl::expected<std::optional<LaunchedRank>, std::string> launched_rank(const Environment& environment);

struct LaunchedProcess {
  ProcessPlace place;
  std::int32_t world_size = 1;
};

/// Reads the rank and the number of ranks: RANK and WORLD_SIZE (torchrun), OMPI_COMM_WORLD_RANK and _SIZE
/// (Open MPI), or SLURM_PROCID and SLURM_NTASKS. MASTER_ADDR (default: the loopback address) and MASTER_PORT
/// are the coordinator's address; PENSTOCK_PORT has precedence over MASTER_PORT. If torchrun's own store
/// listens on MASTER_PORT (TORCHELASTIC_USE_AGENT_STORE), the next port is taken. PENSTOCK_SECRET is the
/// job's secret. Returns nothing if no launcher started this process: there is no rank, or a single one
/// without a port, as in a Slurm allocation. Error: which variable is missing or wrong.
tl::expected<std::optional<LaunchedProcess>, std::string> launched_process(const Environment& environment);

/// Returns the port of the store of torchrun's agent, which the ranks may use: MASTER_PORT, if
/// TORCHELASTIC_USE_AGENT_STORE says so. Returns nothing if there is no store or no such port.
std::optional<std::uint16_t> agent_store_port(const Environment& environment);

/// Returns the port after the coordinator's, on which rank 0 may listen for another purpose. Error: 65535 is
/// the last port.
tl::expected<std::uint16_t, std::string> port_after(const Endpoint& coordinator);

/// Returns the place of the launched process. Error: those of launched_process(), and that the launcher
/// started another number of processes than `ranks`.
tl::expected<std::optional<ProcessPlace>, std::string> launched_place(const Environment& environment,
                                                                      std::int32_t ranks);

}  // namespace penstock
