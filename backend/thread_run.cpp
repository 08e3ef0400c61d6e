#include "backend/thread_run.hpp"

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "backend/clock.hpp"
#include "backend/executor.hpp"
#include "backend/in_process_transport.hpp"
#include "backend/measured_run.hpp"
#include "backend/occupy_module.hpp"
#include "report/result.hpp"
#include "report/timeline.hpp"
#include "scenarios/experiment.hpp"
#include "schedules/channel.hpp"
#include "schedules/transports.hpp"

namespace penstock {
namespace {

constexpr std::string_view kTransport = "in-process";

tl::expected<Timeline, ExecutionError> once(const PreparedRun& run) {
  const SteadyClock clock(run.options.time_scale);
  const Experiment& experiment = run.experiment;
  StageModules modules = occupy_modules(experiment.program, experiment.costs, clock, run.options.jitter);
  InProcessTransport transport(run.flat, run.channels, run.pace, clock);
  return execute({.program = experiment.program,
                  .flat = run.flat,
                  .modules = modules,
                  .transport = transport,
                  .clock = clock,
                  .deadline = run.deadline});
}

tl::expected<std::vector<Timeline>, ExecutionError> all(const PreparedRun& run) {
  std::vector<Timeline> timelines;
  for (std::int32_t i = 0; i < run.runs(); ++i) {
    auto timeline = once(run);
    if (!timeline) return tl::unexpected(std::move(timeline.error()));
    timelines.push_back(*std::move(timeline));
  }
  return timelines;
}

}  // namespace

ChannelOptions thread_channels(const ChannelOptions& asked) {
  ChannelOptions channels = asked;
  channels.model = find_transport(kTransport)->channels.model;
  return channels;
}

tl::expected<Result, RunError> run_on_threads(const Experiment& experiment, const PaceOfLinks& pace,
                                              const RunOptions& options) {
  auto result = measure(experiment, pace, options,
                        {.engine = "cpu-thread",
                         .worker = "thread",
                         .transport = kTransport,
                         .channels = thread_channels(experiment.channels),
                         .execute = all});
  if (!result) return tl::unexpected(std::move(result.error()));
  return **std::move(result);
}

}  // namespace penstock
