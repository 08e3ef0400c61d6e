#pragma once
// `cpu-thread`: one program over the in-process transport, a thread a rank.

#include <tl/expected.hpp>

#include "backend/executor/measured_run.hpp"
#include "backend/executor/module_family.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

/// What the in-process transport declares, with the blocking, capacity and eager size that the experiment
/// asks for, all of which it can do.
ChannelOptions thread_channels(const ChannelOptions& asked);

/// measure() in the threads of this process.
tl::expected<Result, RunError> run_on_threads(const Experiment& experiment, const PaceOfLinks& pace,
                                              const RunOptions& options, const ModuleFamily& family);

}  // namespace penstock
