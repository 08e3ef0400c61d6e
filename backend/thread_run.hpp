#pragma once
// `cpu-thread`: one program with occupy modules over the in-process transport, warmed up, repeated and
// summed up as a measured Result.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "backend/in_process_transport.hpp"
#include "backend/occupy_module.hpp"
#include "report/result.hpp"
#include "scenarios/experiment.hpp"
#include "schedules/channel.hpp"
#include "schedules/flat_program.hpp"

namespace penstock {

struct ThreadRunOptions {
  std::int32_t warmup = 1;   ///< >= 0: runs of the whole program before those that count
  std::int32_t repeats = 5;  ///< >= 1
  double time_scale = 1;     ///< > 0: everything is held so many times as long, and times are divided by it
  Jitter jitter{};
  /// Of one action, host time; 0: ten times the longest action or message, at least 10 s.
  std::chrono::nanoseconds deadline{0};
};

/// How long the links of the experiment's cluster take for each message of its flat program.
using PaceOfLinks = std::function<LinkPace(const FlatProgram&)>;

/// Why a run has no result. `invalid` (exit 1): the program hangs on this transport; otherwise it failed.
struct ThreadRunError {
  std::string message;
  bool invalid = false;
};

/// What the in-process transport declares, with the blocking, capacity and eager size that the experiment
/// asks for, all of which it can do.
ChannelOptions thread_channels(const ChannelOptions& asked);

/// Runs the experiment's program. The timeline and all figures are those of the repeat with the median
/// makespan (of an even number the shorter of the two in the middle). Memory and links are left out.
tl::expected<Result, ThreadRunError> run_on_threads(const Experiment& experiment, const PaceOfLinks& pace,
                                                    const ThreadRunOptions& options);

}  // namespace penstock
