#pragma once
// The `cpu-thread` backend: one thread a rank, with the in-process transport.

#include <tl/expected.hpp>

#include "backend/executor/measured_run.hpp"
#include "backend/executor/module_family.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

/// Returns the channel model that the in-process transport declares, with the blocking, capacity and eager
/// size that the experiment asks for. The transport supports all of these.
ChannelOptions thread_channels(const ChannelOptions& asked);

/// Calls measure() with the ranks on threads of this process.
tl::expected<Result, UserError> run_on_threads(const Experiment& experiment, const PaceOfLinks& pace,
                                               const RunOptions& options, const ModuleFamily& family);

}  // namespace penstock
