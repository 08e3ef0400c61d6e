// The common part of the commands that execute a program. These commands have the same flags for backend,
// time scale and jitter. They differ in how often they run programs and in how they use the times.

#include "cli/measuring.hpp"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/executor/measured_run.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/transport.hpp"
#include "backend/process/process_execution.hpp"
#include "backend/process/process_run.hpp"
#include "backend/threads/thread_run.hpp"
#include "cli/executable.hpp"
#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/subcommand.hpp"
#include "report/result/result.hpp"
#include "scenarios/host/process_limits.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "sim/network/message_costs.hpp"

namespace penstock {

namespace {

constexpr const char* kGroup = "Measuring";

/// Declares a flag for a whole number. Its default is the present value of `value`.
void add_count(Subcommand app, const std::string& flag, std::int32_t& value, std::int32_t least,
               const std::string& help) {
  app.add_option(flag, value, fmt::format("{} (default {})", help, value))
      .range(least, 1'000'000)
      .group(kGroup)
      .type_name("N");
}

/// Returns a function that computes how long messages occupy links and when they arrive. The function uses
/// the latencies and bandwidths of the experiment's cluster. A transport on one machine emulates these
/// times.
PaceOfLinks pace_of_links(const Experiment& experiment) {
  return [&experiment](const FlatProgram& flat) {
    WalkDurations durations = walk_durations(experiment, flat);
    return LinkPace{.hold = std::move(durations.hold), .latency = std::move(durations.latency)};
  };
}

}  // namespace

void add_measuring_flags(Subcommand app, MeasuringFlags& flags, const MeasuredWords& words) {
  add_choice(
      app, "--backend", flags.backend,
      {.words = {"cpu-thread", "cpu-process", "cuda-local", "nccl"},
       .help = "cpu-thread (default): a thread a rank, actions occupy it for their time; cpu-process: a "
               "process a rank" +
               words.processes,
       .group = kGroup,
       .type_name = "NAME"});
  app.add_flag("--occupy", flags.occupy,
               "hold each action for the time that the costs say, also where the model names a network")
      .group(kGroup);
  add_count(app, "--warmup", flags.warmup, 0, words.warmup);
  add_count(app, words.count_flag, flags.counted, 1, words.counted);
  app.add_option(
         "--time-scale", flags.time_scale,
         "hold everything X times as long and divide the times by X: threads are exact from about 2 ms")
      .range(1e-9, 1e9)
      .group(kGroup)
      .type_name("X");
  app.add_option("--jitter", flags.jitter, "vary durations evenly by this fraction either way (default 0)")
      .range(0.0, 1.0)
      .group(kGroup)
      .type_name("FRACTION");
  app.add_option("--seed", flags.seed, "of the jitter (default 1)")
      .range(std::int64_t{0}, kLargestSeed)
      .group(kGroup)
      .type_name("N");
  app.add_option("--deadline", flags.deadline_seconds,
                 "seconds after which the run fails: of an action that does not end (at least 0.01; default: "
                 "ten times the longest, at least 10), of a process that does not come (at least 1; default: "
                 "10, nccl 90)")
      .range(1e-3, 1e7)
      .group(kGroup)
      .type_name("SECONDS");
  add_choice(app, "--launch-order", flags.launch_order,
             {.words = {"on", "off"},
              .help = "nccl only: on lets NCCL's kernels of a rank start in the order of their launches; off "
                      "(default) lets each start when it can",
              .group = kGroup,
              .type_name = "WORD"});
  add_count(app, "--ranks-per-gpu", flags.ranks_per_gpu, 1,
            "nccl only: a rehearsal in which N ranks share each GPU; needs NCCL 2.30 or newer");
}

bool asks_for_launch_order(const MeasuringFlags& flags) { return flags.launch_order == "on"; }

RunOptions run_options(const MeasuringFlags& flags) {
  return {.warmup = flags.warmup,
          .repeats = flags.counted,
          .time_scale = flags.time_scale,
          .deadline = std::chrono::nanoseconds(std::llround(flags.deadline_seconds * 1e9)),
          .memory = memory_to_take(),
          .launch_order = asks_for_launch_order(flags),
          .ranks_per_gpu = flags.ranks_per_gpu};
}

tl::expected<std::optional<Result>, UserError> measure_by_backend(const Experiment& experiment,
                                                                  const MeasuringFlags& flags,
                                                                  const RunOptions& options,
                                                                  const std::optional<ProcessPlace>& place,
                                                                  const Extensions& extensions) {
  if (flags.backend != "nccl" && (options.launch_order || options.ranks_per_gpu > 1)) {
    return bad_input(
        fmt::format("--launch-order on and --ranks-per-gpu are for --backend nccl, not {}; leave "
                    "them out",
                    flags.backend));
  }
  const PaceOfLinks pace = pace_of_links(experiment);
  const Jitter jitter{.fraction = flags.jitter, .seed = flags.seed};
  // GPU backends make their modules themselves, when they know the GPU of each worker.
  if (const auto found = extensions.backends.find(flags.backend); found != extensions.backends.end())
    return found->second({experiment, pace, options, jitter});
  const auto family = family_of(experiment, jitter, extensions);
  if (!family) return bad_input(family.error());
  if (flags.backend == "cpu-process") return run_on_processes(experiment, pace, options, **family, place);
  return run_on_threads(experiment, pace, options, **family);
}

tl::expected<Result, UserError> measure_once(const Experiment& experiment, const MeasuringFlags& flags,
                                             std::int32_t warmup, const Extensions& extensions) {
  RunOptions once = run_options(flags);
  once.warmup = warmup;
  once.repeats = 1;
  auto result = measure_by_backend(experiment, flags, once, std::nullopt, extensions);
  if (!result) return tl::unexpected(std::move(result.error()));
  if (!*result) return user_error(ErrorKind::run_failed, "another process has the result");
  return **std::move(result);
}

// Chooses the executable and the modules of a run by its backend and its network. This executable has the
// core's backends and the occupy modules. If a run needs something else, another executable replaces this
// process (executable.hpp). Users therefore always type the same command.

std::optional<UserError> hand_over(std::string_view command, const std::string& backend,
                                   const Experiment& experiment, const Invocation& invocation) {
  const Extensions& extensions = invocation.extensions;
  const bool of_core = backend == "cpu-thread" || backend == "cpu-process";
  // The backend is checked first. The executable with GPU backends also has networks, so it is right in any
  // case.
  if (!of_core && !extensions.backends.contains(backend)) {
    return become("penstock-cuda", invocation.arguments, fmt::format("{}: --backend {}", command, backend));
  }
  if (of_core && experiment.network && !extensions.network) {
    return become("penstock-torch", invocation.arguments,
                  fmt::format("{}: the network {}", command, experiment.network->spec.name));
  }
  return std::nullopt;
}

tl::expected<std::unique_ptr<ModuleFamily>, std::string> family_of(const Experiment& experiment,
                                                                   const Jitter& jitter,
                                                                   const Extensions& extensions) {
  if (!experiment.network) return std::make_unique<OccupyFamily>(experiment, jitter);
  return extensions.network(experiment);
}

}  // namespace penstock
