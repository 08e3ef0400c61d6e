#pragma once
// Processes that torchrun started, joined over TCP (process_group.hpp). Used by commands/sweep_command.cpp.

#include <string>
#include <tl/expected.hpp>

#include "backend/process/launch_environment.hpp"
#include "cli/process_group.hpp"

namespace penstock {

/// Joins the others: rank 0 listens where the launcher says, and all prove the job's secret. Error: what they
/// wait for has not come within a minute. A process that waits in first_says() or gather() for one that has
/// ended, or has been silent for kLongestSilence, says so and ends with ExitCode::run_failed.
tl::expected<ProcessGroup, std::string> joined_by_sockets(const LaunchedProcess& process);

}  // namespace penstock
