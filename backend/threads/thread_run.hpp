#pragma once
// The `cpu-thread` backend: one thread a rank, with the in-process transport.

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

/// Returns the channel model that the in-process transport declares, with the blocking, capacity and eager
/// size that the experiment asks for. The transport supports all of these.
ChannelOptions thread_channels(const ChannelOptions& asked);

/// Calls measure() with the ranks on threads of this process.
tl::expected<Result, UserError> run_on_threads(const Experiment& experiment, const PaceOfLinks& pace,
                                               const RunOptions& options, const ModuleFamily& family);

// Checks whether this process has enough resources for one thread per rank, before the first one is started.

/// The resources for threads in this process. A value is absent if there is no limit or it cannot be read.
struct ThreadRoom {
  Bytes stack = 0;              ///< bytes of address space for the stack of one thread
  std::optional<Bytes> left{};  ///< bytes of address space that this process may still use (ulimit -v)
  /// The number of address ranges (mappings) that this process may still create. The stack of a thread and
  /// its guard page are two.
  std::optional<std::int64_t> mappings{};
  std::optional<TaskRoom> tasks{};
};

/// Returns the resources that this process may still use.
ThreadRoom thread_room();

/// Returns which resource is too small for this many threads, and what the user can do. Returns nothing if
/// all are sufficient.
std::optional<std::string> threads_refusal(std::size_t threads, const ThreadRoom& room);

}  // namespace penstock
