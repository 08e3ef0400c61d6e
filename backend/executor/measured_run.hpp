#pragma once
// The part of a run that all backends share: options, deadline, selection of the median run, and the Result.
// thread_run.hpp and process/process_run.hpp call it.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/transport.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

struct RunOptions {
  std::int32_t warmup = 1;   ///< runs of the whole program before those that count, >= 0
  std::int32_t repeats = 5;  ///< runs that count, >= 1
  double time_scale = 1;     ///< factor by which every hold is longer; measured times are divided by it; > 0
  /// Limit of one action in host time; below 10 ms it counts as 10 ms. 0 means ten times the longest action
  /// or message, and at least 10 s. It also limits how long the processes of a run wait for each other to
  /// start: patience_to_join().
  std::chrono::nanoseconds deadline{0};
  /// Memory of this machine that the processes of a run may take together. Absent: no check is made.
  std::optional<Bytes> memory{};
};

/// A function that returns how long the links of the experiment's cluster take for each message of its flat
/// program.
using PaceOfLinks = std::function<LinkPace(const FlatProgram&)>;

/// An experiment that is ready to be executed. The references are valid only during the call that receives
/// it.
struct PreparedRun {
  const Experiment& experiment;
  const RunOptions& options;
  const ModuleFamily& family;
  const FlatProgram& flat;
  const ChannelOptions& channels;
  const LinkPace& pace;
  std::chrono::nanoseconds deadline;

  std::int32_t runs() const { return options.warmup + options.repeats; }
};

/// Returns how long the processes of a run wait until all have started: the requested deadline, and at least
/// 1 s. Returns nothing if no deadline is requested; the backend then uses its own.
std::optional<std::chrono::nanoseconds> patience_to_join(const RunOptions& options);

/// A backend: a function that executes, with its names and its channels.
struct Runner {
  std::string_view engine;     ///< for example "cpu-thread"
  std::string_view transport;  ///< name in schedules/ir/channel.hpp
  ChannelOptions channels;     ///< channel options of the run
  /// Executes the program prepared.runs() times. Returns all runs, or none if the process of another rank has
  /// them.
  std::function<tl::expected<std::vector<ExecutedRun>, ExecutionError>(const PreparedRun&)> execute;
  /// Returns why this machine has no room for the run, before anything is started. May be empty.
  std::function<std::optional<std::string>(const FlatProgram&)> refusal{};
};

/// Runs the experiment's program. The timeline and all figures are those of the run with the median makespan
/// (of an even number the shorter of the middle two). The result has no links, and no memory if the modules
/// store nothing. Returns nothing if another process has the timelines.
tl::expected<std::optional<Result>, UserError> measure(const Experiment& experiment, const PaceOfLinks& pace,
                                                       const RunOptions& options, const ModuleFamily& family,
                                                       const Runner& runner);

/// Executes one run on the threads of this process, or on the `queues` of its ranks, and returns it with the
/// accounts of its modules.
tl::expected<ExecutedRun, ExecutionError> execute_on_threads(const PreparedRun& run, StageModules& modules,
                                                             Transport& transport, const Clock& clock,
                                                             std::span<ComputeQueue* const> queues = {});

/// Returns the channel options that the named transport declares (schedules/ir/channel.hpp), for
/// transports that support only these. Error: the experiment asks for blocking or bounded channels, or for
/// eager messages.
tl::expected<ChannelOptions, std::string> declared_channels(const ChannelOptions& asked,
                                                            std::string_view transport);

}  // namespace penstock
