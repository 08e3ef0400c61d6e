#pragma once
// One rank of a process run, in its process. Private to process_execution.cpp.

#include <chrono>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "backend/executor/executor.hpp"
#include "backend/process/process_execution.hpp"
#include "backend/process/rank_sockets.hpp"

namespace penstock {

/// Joins the coordinator and runs the rank's list as often as it says, on the calling thread. Error: the
/// coordinator's verdict, or that the coordinator cannot be reached.
tl::expected<void, ExecutionError> run_worker(const ProcessExecution& execution, const ProcessPlace& place);
/// The same in a forked process, which is connected to the others already.
tl::expected<void, ExecutionError> run_worker(const ProcessExecution& execution, std::int32_t rank,
                                              RankEnds ends);

/// Names the host since it was started; processes of one host share a clock.
std::string boot_id();

/// How often a process of the run gives a sign of life: at least eight times within the deadline, and the
/// more seldom, the more ranks there are to be heard.
std::chrono::nanoseconds report_period(const ProcessExecution& execution);

}  // namespace penstock
