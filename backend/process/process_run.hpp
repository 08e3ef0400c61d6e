#pragma once
// `cpu-process`: one program over sockets, a process a rank.

#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "backend/executor/measured_run.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/process/process_execution.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

/// measure() in children of this process, which must have no other threads; with a `place`, in processes
/// that somebody else has started, of which only rank 0 has a Result.
tl::expected<std::optional<Result>, RunError> run_on_processes(const Experiment& experiment,
                                                               const PaceOfLinks& pace,
                                                               const RunOptions& options,
                                                               const ModuleFamily& family,
                                                               const std::optional<ProcessPlace>& place);

}  // namespace penstock
