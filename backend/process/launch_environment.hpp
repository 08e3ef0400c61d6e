#pragma once
// Finds from environment variables the rank of a process that a launcher started (torchrun, mpirun or srun).

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "backend/process/process_execution.hpp"

namespace penstock {

/// A function that returns the value of an environment variable, or null if it is not set.
using Environment = std::function<const char*(const char* name)>;

/// The number of a process among all processes that a launcher started together.
struct LaunchedRank {
  std::int32_t rank = 0;
  std::int32_t size = 1;
  const char* size_variable = "";  ///< name of the environment variable that gave `size`
};

/// Reads the rank and the number of ranks. The variables are RANK and WORLD_SIZE (torchrun),
/// OMPI_COMM_WORLD_RANK and _SIZE (Open MPI), PMI_RANK and PMI_SIZE (MPICH), or SLURM_PROCID and
/// SLURM_NTASKS. Returns nothing if no rank variable is set. Error: the size is missing, or a value is not a
/// number or out of range.
tl::expected<std::optional<LaunchedRank>, std::string> launched_rank(const Environment& environment);

struct LaunchedProcess {
  ProcessPlace place;
  std::int32_t world_size = 1;
};

/// Reads the rank and the number of ranks from RANK and WORLD_SIZE (torchrun), OMPI_COMM_WORLD_RANK and _SIZE
/// (Open MPI), or SLURM_PROCID and SLURM_NTASKS. The coordinator's address is MASTER_ADDR (default: the
/// loopback address) with PENSTOCK_PORT, or else MASTER_PORT. If torchrun's own store listens on MASTER_PORT
/// (TORCHELASTIC_USE_AGENT_STORE), the next port is used. PENSTOCK_SECRET is the job's secret. Returns
/// nothing if no launcher started this process. This is so if no rank is set, or if there is a single rank
/// and no port, as in a Slurm allocation. Error: which variable is missing or wrong.
tl::expected<std::optional<LaunchedProcess>, std::string> launched_process(const Environment& environment);

/// Returns the port of the key-value store of torchrun's agent, which the ranks may use. It is MASTER_PORT if
/// TORCHELASTIC_USE_AGENT_STORE is set. Returns nothing if there is no store or no valid port.
std::optional<std::uint16_t> agent_store_port(const Environment& environment);

/// Returns the coordinator's port plus 1. Rank 0 may listen there for another purpose. Error: the
/// coordinator's port is 65535, the last one.
tl::expected<std::uint16_t, std::string> port_after(const Endpoint& coordinator);

/// Returns the rank and the coordinator's address of this launched process. Error: launched_process() fails,
/// or the launcher has not started exactly `ranks` processes.
tl::expected<std::optional<ProcessPlace>, std::string> launched_place(const Environment& environment,
                                                                      std::int32_t ranks);

}  // namespace penstock
