#pragma once
// Finds the shard of a sweep that this process computes, and merges the files of all shards into one
// sweep. commands/sweep_command.cpp uses it.

#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "backend/process/process_execution.hpp"
#include "cli/outcome.hpp"
#include "report/result/sweep_progress.hpp"
#include "report/result/sweep_table.hpp"

namespace penstock {

/// A shard of a sweep, and the flag or environment variable that states it.
struct StatedShard {
  SweepShard shard;
  std::string stated_by;
};

/// Returns the shard that `flag` states ("2/4"). If `flag` is empty, the shard follows from the environment
/// variables of a launcher. They are RANK and WORLD_SIZE, or those of Open MPI, MPICH, a Slurm step or a
/// Slurm job array. Each task of a job array may have several processes. Returns nothing if the process
/// runs alone. Fails if the flag does not name a shard, or if the variables contradict each other.
tl::expected<std::optional<StatedShard>, UserError> shard_of_process(const std::string& flag,
                                                                     const Environment& environment);

/// Reads the files that `sweep --shard` and `sweep --resume` write, each with a part of a sweep. Returns
/// the sweep that a single process would compute. Fails if a file is not such a part, or if parts belong to
/// different sweeps. Also fails if a shard is missing, duplicate or incomplete. The error names the files.
tl::expected<Sweep, UserError> merged_sweep(const std::vector<std::string>& files);

}  // namespace penstock
