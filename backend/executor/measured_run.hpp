#pragma once
// What all ways to execute an experiment have in common: options, deadline, the median
// repeat, and the Result. thread_run.hpp and process/process_run.hpp say who executes.

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
#include "backend/executor/compute_queue.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/link_pace.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/transport.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

struct RunOptions {
  std::int32_t warmup = 1;   ///< >= 0: runs of the whole program before those that count
  std::int32_t repeats = 5;  ///< >= 1
  double time_scale = 1;     ///< > 0: everything is held so many times as long, and times are divided by it
  /// Of one action, host time; one below 10 ms counts as 10 ms. 0: ten times the longest action or message,
  /// at least 10 s. Processes of a run wait as long for each other to come: patience_to_join().
  std::chrono::nanoseconds deadline{0};
  /// That the processes of a run may take together, of this machine; nothing: nobody looks.
  std::optional<Bytes> memory{};
};

/// How long the links of the experiment's cluster take for each message of its flat program.
using PaceOfLinks = std::function<LinkPace(const FlatProgram&)>;

/// What kept a run from a result.
enum class RunFault : std::uint8_t {
  failed,       // a worker, a device or a peer did, or the deadline passed
  invalid,      // the program hangs on this transport, or asks of it what it does not do
  bad_input,    // what is asked for cannot be: a network that lacks a part, a launcher of another size
  unavailable,  // this machine lacks a part: no GPU, no driver
};

struct RunError {
  std::string message;
  RunFault fault = RunFault::failed;
};

/// An experiment ready to be executed. References are good for the call that gets it.
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

/// How long the processes of a run wait until all have come, whichever backend has them: as long as the
/// deadline that is asked for, and at least 1 s. Nothing where none is: it is the backend's own.
std::optional<std::chrono::nanoseconds> patience_to_join(const RunOptions& options);

/// One way to execute.
struct Runner {
  std::string_view engine;     ///< "cpu-thread"
  std::string_view transport;  ///< its name in schedules/ir/transports.hpp
  ChannelOptions channels;     ///< of the run
  /// Each of prepared.runs(), or none where another process has them.
  std::function<tl::expected<std::vector<ExecutedRun>, ExecutionError>(const PreparedRun&)> execute;
  /// May be empty. Why there is no room for it here, before anything is started.
  std::function<std::optional<std::string>(const FlatProgram&)> refusal{};
};

/// Runs the experiment's program. The timeline and all figures are those of the repeat with the median
/// makespan (of an even number the shorter of the two in the middle). Links are left out, and memory where
/// the modules store nothing. Nothing where another process has the timelines.
tl::expected<std::optional<Result>, RunError> measure(const Experiment& experiment, const PaceOfLinks& pace,
                                                      const RunOptions& options, const ModuleFamily& family,
                                                      const Runner& runner);

/// One run by the threads of this process, or by the `queues` of its ranks, with what its modules account
/// for.
tl::expected<ExecutedRun, ExecutionError> execute_on_threads(const PreparedRun& run, StageModules& modules,
                                                             Transport& transport, const Clock& clock,
                                                             std::span<ComputeQueue* const> queues = {});

/// What the transport of that name (schedules/ir/transports.hpp) declares, where all it has is that. Error:
/// the experiment asks for blocking or bounded channels, or for eager messages.
tl::expected<ChannelOptions, std::string> declared_channels(const ChannelOptions& asked,
                                                            std::string_view transport);

}  // namespace penstock
