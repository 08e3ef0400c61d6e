#pragma once
// The shard of a sweep that this process makes. Used by commands/sweep_command.cpp.

#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "backend/process/launch_environment.hpp"
#include "cli/outcome.hpp"
#include "report/result/sweep_progress.hpp"

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

}  // namespace penstock
