#pragma once
// The part of a run that all backends share: options, deadline, choice of the median run, and the Result.
// Each backend calls measure(), for example in thread_run.hpp and process/process_run.hpp.

#include <chrono>
#include <cstddef>
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
  std::int32_t warmup = 1;   ///< runs of the whole program that come first and do not count, >= 0
  std::int32_t repeats = 5;  ///< runs that count, >= 1
  /// The factor by which modules and links lengthen the times that they emulate; > 0. Measured times are
  /// divided by this factor.
  double time_scale = 1;
  /// The limit on the host time of one action. A limit below 10 ms counts as 10 ms. 0 means the default:
  /// ten times the longest action or message, and at least 10 s. This limit also bounds the start of the
  /// processes (see patience_to_join()).
  std::chrono::nanoseconds deadline{0};
  /// The memory of this machine, in bytes, that all processes of a run may use together. If it is absent,
  /// memory is not checked.
  std::optional<Bytes> memory{};
  /// True if the NCCL kernels of a rank start in the order in which the rank launches them. Used only by the
  /// backend `nccl`.
  bool launch_order = false;
  /// The number of consecutive ranks that share one GPU, >= 1. Used only by the backend `nccl`.
  std::int32_t ranks_per_gpu = 1;
  /// A function that is called after each run of the whole program. It receives the number of finished runs
  /// and the number of all runs. The thread that measures calls it. May be empty.
  std::function<void(std::size_t done, std::size_t total)> progress{};
};

/// A function that returns the times of all messages of a flat program on the links of the experiment's
/// cluster.
using PaceOfLinks = std::function<LinkPace(const FlatProgram&)>;

/// An experiment with all arguments of a run. The references are valid only during the call that receives
/// this struct.
struct PreparedRun {
  const Experiment& experiment;
  const RunOptions& options;
  const ModuleFamily& family;
  const FlatProgram& flat;
  const ChannelOptions& channels;
  const LinkPace& pace;
  std::chrono::nanoseconds deadline;

  std::int32_t runs() const { return options.warmup + options.repeats; }
  /// Calls options.progress, if it is set, and reports that `done` runs have finished.
  void report_finished(std::size_t done) const {
    if (options.progress) options.progress(done, static_cast<std::size_t>(runs()));
  }
};

/// Returns the time for which the processes of a run wait until all have started. It is the deadline that
/// the user set, but at least one second. Returns nothing if the user set no deadline; the backend then
/// uses its default.
std::optional<std::chrono::nanoseconds> patience_to_join(const RunOptions& options);

/// A backend: its names, its channel options and the function that executes a program.
struct Runner {
  std::string_view engine;     ///< for example "cpu-thread"
  std::string_view transport;  ///< the transport's name in schedules/ir/channel.hpp
  ChannelOptions channels;     ///< channel options of the run
  /// Executes the program prepared.runs() times and returns all these runs. Returns an empty list if the
  /// process of another rank collects the runs.
  std::function<tl::expected<std::vector<ExecutedRun>, ExecutionError>(const PreparedRun&)> execute;
  /// Returns the reason why this machine has too few resources for the run, or nothing if they are
  /// sufficient. It is called before anything starts. May be empty.
  std::function<std::optional<std::string>(const FlatProgram&)> refusal{};
};

/// Runs the experiment's program several times and returns the result. The timeline and all numbers come from
/// the run with the median makespan. If the number of runs is even, they come from the shorter of the middle
/// two. The result has no data about links. It has no memory data if the modules store nothing. Returns
/// nothing if another process collects the timelines.
tl::expected<std::optional<Result>, UserError> measure(const Experiment& experiment, const PaceOfLinks& pace,
                                                       const RunOptions& options, const ModuleFamily& family,
                                                       const Runner& runner);

/// Executes one run on the threads of this process, or on the `queues` of its ranks. Returns the run with the
/// data that its modules report.
tl::expected<ExecutedRun, ExecutionError> execute_on_threads(const PreparedRun& run, StageModules& modules,
                                                             Transport& transport, const Clock& clock,
                                                             std::span<ComputeQueue* const> queues = {});

/// Returns the channel options of the transport with this name (schedules/ir/channel.hpp). This function is
/// for transports whose only option is groups of transfers. Fails if the experiment requires blocking
/// channels, bounded channels or eager messages.
tl::expected<ChannelOptions, std::string> declared_channels(const ChannelOptions& asked,
                                                            std::string_view transport);

}  // namespace penstock
