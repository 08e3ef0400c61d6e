#pragma once
// The `cpu-process` backend: one process a rank, with sockets between them.

#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "backend/executor/measured_run.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/process/process_execution.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

/// Calls measure() with the ranks in children of this process, which must have no other threads. With a
/// `place`, the ranks are processes that a launcher has started, and only rank 0 gets a Result.
tl::expected<std::optional<Result>, UserError> run_on_processes(const Experiment& experiment,
                                                                const PaceOfLinks& pace,
                                                                const RunOptions& options,
                                                                const ModuleFamily& family,
                                                                const std::optional<ProcessPlace>& place);

}  // namespace penstock
