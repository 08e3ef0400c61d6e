#include "backend/thread_run.hpp"

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "backend/clock.hpp"
#include "backend/executor.hpp"
#include "backend/in_process_transport.hpp"
#include "backend/measured_run.hpp"
#include "backend/module_family.hpp"
#include "report/result.hpp"
#include "scenarios/experiment.hpp"
#include "schedules/channel.hpp"
#include "schedules/transports.hpp"

namespace penstock {
namespace {

constexpr std::string_view kTransport = "in-process";

tl::expected<ExecutedRun, ExecutionError> once(const PreparedRun& run) {
  const SteadyClock clock(run.options.time_scale);
  StageModules modules = run.family.modules(std::nullopt, clock);
  InProcessTransport transport(run.flat, run.channels, run.pace, clock);
  return execute_on_threads(run, modules, transport, clock);
}

tl::expected<std::vector<ExecutedRun>, ExecutionError> all(const PreparedRun& run) {
  std::vector<ExecutedRun> runs;
  for (std::int32_t i = 0; i < run.runs(); ++i) {
    auto executed = once(run);
    if (!executed) return tl::unexpected(std::move(executed.error()));
    runs.push_back(*std::move(executed));
  }
  return runs;
}

}  // namespace

ChannelOptions thread_channels(const ChannelOptions& asked) {
  ChannelOptions channels = asked;
  channels.model = find_transport(kTransport)->channels.model;
  return channels;
}

tl::expected<Result, RunError> run_on_threads(const Experiment& experiment, const PaceOfLinks& pace,
                                              const RunOptions& options, const ModuleFamily& family) {
  auto result = measure(experiment, pace, options, family,
                        {.engine = "cpu-thread",
                         .transport = kTransport,
                         .channels = thread_channels(experiment.channels),
                         .execute = all});
  if (!result) return tl::unexpected(std::move(result.error()));
  return **std::move(result);
}

}  // namespace penstock
