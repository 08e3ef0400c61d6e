#pragma once
// Shards of a sweep: which one this process makes, and how the parts of all shards become one sweep. Used by
// commands/sweep_command.cpp.

#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "backend/process/process_execution.hpp"
#include "cli/outcome.hpp"
#include "report/result/sweep_progress.hpp"
#include "report/result/sweep_table.hpp"

namespace penstock {

/// A shard, and the flag or the variable that states it.
struct StatedShard {
  SweepShard shard;
  std::string stated_by;
};

/// Returns the shard that `flag` states ("2/4"). Where the flag is empty, returns the one that follows from
/// the launcher's variables: RANK and WORLD_SIZE, those of Open MPI, MPICH or a step of Slurm, and those of a
/// job array of Slurm, of which each task may have several processes. Returns nothing for a process that is
/// alone. Error: a text that is no shard, or variables that contradict each other.
tl::expected<std::optional<StatedShard>, UserError> shard_of_process(const std::string& flag,
                                                                     const Environment& environment);

/// Reads the parts that `sweep --shard` and `sweep --resume` write, and returns the sweep that one process
/// would have made. Error: a file that is no part, parts of different sweeps, a shard that is missing, is
/// there twice or is not complete; each with the names of the files.
tl::expected<Sweep, UserError> merged_sweep(const std::vector<std::string>& files);

}  // namespace penstock
