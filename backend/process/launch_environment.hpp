#pragma once
// Which rank a launcher made of this process: torchrun, mpirun or srun, by the variables that they set.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "backend/process/process_execution.hpp"

namespace penstock {

/// The value of an environment variable; null where it is not set.
using Environment = std::function<const char*(const char* name)>;

struct LaunchedProcess {
  ProcessPlace place;
  std::int32_t world_size = 1;
};

/// Reads RANK and WORLD_SIZE (torchrun), OMPI_COMM_WORLD_RANK and _SIZE (OpenMPI), or SLURM_PROCID and
/// SLURM_NTASKS, and MASTER_ADDR (this host's loopback address unless given) and MASTER_PORT. PENSTOCK_PORT
/// comes before MASTER_PORT. Where torchrun's own store listens on MASTER_PORT
/// (TORCHELASTIC_USE_AGENT_STORE), the next port is taken. PENSTOCK_SECRET is the job's secret. Nothing when
/// no launcher started this process: there is no rank, or a single one without a port, as an allocation of
/// Slurm has it. Error: which variable is missing or wrong.
tl::expected<std::optional<LaunchedProcess>, std::string> launched_process(const Environment& environment);

/// The port on which torchrun's agent keeps a store of its own, which the ranks may use: MASTER_PORT, where
/// TORCHELASTIC_USE_AGENT_STORE says so. Nothing where there is none, or no such port.
std::optional<std::uint16_t> agent_store_port(const Environment& environment);

/// The port after the coordinator's, for what else rank 0 listens on. Error: 65535 is the last one.
tl::expected<std::uint16_t, std::string> port_after(const Endpoint& coordinator);

/// Its place. Error: also that the launcher started another number of processes than `ranks`.
tl::expected<std::optional<ProcessPlace>, std::string> launched_place(const Environment& environment,
                                                                      std::int32_t ranks);

}  // namespace penstock
