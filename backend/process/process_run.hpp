#pragma once
// `cpu-process`: one program over sockets, a process a rank.

#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "backend/measured_run.hpp"
#include "backend/module_family.hpp"
#include "backend/process/process_execution.hpp"
#include "report/result.hpp"
#include "scenarios/experiment.hpp"
#include "schedules/channel.hpp"

namespace penstock {

/// measure() in children of this process, which must have no other threads; with a `place`, in processes
/// that somebody else has started, of which only rank 0 has a Result.
tl::expected<std::optional<Result>, RunError> run_on_processes(const Experiment& experiment,
                                                               const PaceOfLinks& pace,
                                                               const RunOptions& options,
                                                               const ModuleFamily& family,
                                                               const std::optional<ProcessPlace>& place);

}  // namespace penstock
