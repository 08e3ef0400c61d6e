#include "backend/process/process_run.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/clock.hpp"
#include "backend/executor.hpp"
#include "backend/measured_run.hpp"
#include "backend/module_family.hpp"
#include "backend/process/process_execution.hpp"
#include "report/result.hpp"
#include "scenarios/experiment.hpp"

namespace penstock {
namespace {

constexpr std::string_view kTransport = "sockets";
constexpr std::chrono::milliseconds kShortestDeadline(10);

tl::expected<std::vector<ExecutedRun>, ExecutionError> execute_with(
    const PreparedRun& run, const std::optional<ProcessPlace>& place) {
  const Experiment& experiment = run.experiment;
  const ProcessExecution execution = {
      .program = experiment.program,
      .flat = run.flat,
      .modules = [&](std::int32_t rank, const Clock& clock) { return run.family.modules(rank, clock); },
      .pace = run.pace,
      .codec = run.family.codec(),
      .time_scale = run.options.time_scale,
      .runs = run.runs(),
      .deadline = std::max<std::chrono::nanoseconds>(run.deadline, kShortestDeadline),
      .finished = [&](std::int32_t rank,
                      const StageModules& modules) { return run.family.account(rank, modules); }};
  return place ? execute_as_rank(execution, *place) : execute_in_processes(execution);
}

}  // namespace

tl::expected<std::optional<Result>, RunError> run_on_processes(const Experiment& experiment,
                                                               const PaceOfLinks& pace,
                                                               const RunOptions& options,
                                                               const ModuleFamily& family,
                                                               const std::optional<ProcessPlace>& place) {
  const auto channels = declared_channels(experiment.channels, kTransport);
  if (!channels) return tl::unexpected(RunError{.message = channels.error(), .fault = RunFault::invalid});
  return measure(experiment, pace, options, family,
                 {.engine = "cpu-process",
                  .transport = kTransport,
                  .channels = *channels,
                  .execute = [&](const PreparedRun& run) { return execute_with(run, place); }});
}

}  // namespace penstock
