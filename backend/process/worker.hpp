#pragma once
// One rank of a process run, in its process. Used only by process_execution.cpp.

#include <chrono>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "backend/executor/executor.hpp"
#include "backend/process/process_execution.hpp"
#include "backend/process/rank_sockets.hpp"

namespace penstock {

/// Joins the coordinator and runs the rank's list as often as it asks, on the calling thread. Error: the
/// coordinator's verdict, or that the coordinator cannot be reached.
tl::expected<void, ExecutionError> run_worker(const ProcessExecution& execution, const ProcessPlace& place);
/// Like the other one, for a forked process, whose connections exist already.
tl::expected<void, ExecutionError> run_worker(const ProcessExecution& execution, std::int32_t rank,
                                              RankEnds ends);

/// Returns an identifier of the host's present boot. Processes of one boot share a clock.
std::string boot_id();

/// Returns how often a process of the run gives a sign of life: at least eight times within the deadline, and
/// less often with more ranks, because the coordinator must handle all reports.
std::chrono::nanoseconds report_period(const ProcessExecution& execution);

}  // namespace penstock
