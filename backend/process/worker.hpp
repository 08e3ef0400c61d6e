#pragma once
// Runs one rank in its own process and reports to the coordinator (coordinator.hpp). The ranks of
// cpu-thread run in threads of one process instead. Only process_execution.cpp uses it.

#include <chrono>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "backend/executor/executor.hpp"
#include "backend/process/child_processes.hpp"
#include "backend/process/process_execution.hpp"

namespace penstock {

/// Joins the coordinator. Then runs the rank's list on the calling thread, once for each run that the
/// coordinator starts. The error is the failure of a run, or the reason why the coordinator cannot be
/// reached.
tl::expected<void, ExecutionError> run_worker(const ProcessExecution& execution, const ProcessPlace& place);
/// Like the function above, but for a process that was forked. `ends` are its connections, which already
/// exist.
tl::expected<void, ExecutionError> run_worker(const ProcessExecution& execution, std::int32_t rank,
                                              RankEnds ends);

/// Returns an identifier of the present boot of this host. Two processes with equal identifiers share a
/// steady clock.
std::string boot_id();

/// Returns the time between two reports of a process. Usually it is at most an eighth of the deadline. With
/// very many ranks it may be longer, because the coordinator must handle all reports.
std::chrono::nanoseconds report_period(const ProcessExecution& execution);

}  // namespace penstock
