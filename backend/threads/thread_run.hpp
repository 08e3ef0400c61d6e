#pragma once
// The `cpu-thread` backend: one thread for each rank, with messages inside the process. It needs neither
// sockets nor GPUs.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <tl/expected.hpp>

#include "backend/executor/measured_run.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/task_room.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

/// Returns the channel options of the in-process transport. The channel model is that of the transport.
/// Blocking, capacity and eager size are those of `asked`, because the transport supports them.
ChannelOptions thread_channels(const ChannelOptions& asked);

/// Measures the experiment in this process, with one thread for each rank.
tl::expected<Result, UserError> run_on_threads(const Experiment& experiment, const PaceOfLinks& pace,
                                               const RunOptions& options, const ModuleFamily& family);

// Checks whether this process has enough resources for one thread for each rank, before the first thread is
// started.

/// The resources that this process can still use for new threads. A value is absent if there is no limit or
/// if the limit cannot be read.
struct ThreadRoom {
  Bytes stack = 0;              ///< address space, in bytes, for the stack of one thread
  std::optional<Bytes> left{};  ///< address space, in bytes, that the process may still use (ulimit -v)
  /// The number of address ranges (mappings) that this process may still create. Each thread needs two: one
  /// for its stack and one for a guard page.
  std::optional<std::int64_t> mappings{};
  std::optional<TaskRoom> tasks{};
};

/// Returns the resources that this process can still use for new threads.
ThreadRoom thread_room();

/// Returns a text that names the resource that is too small for `threads` threads, and says what the user
/// can do. Returns nothing if all resources are sufficient.
std::optional<std::string> threads_refusal(std::size_t threads, const ThreadRoom& room);

}  // namespace penstock
