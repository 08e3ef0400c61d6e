// The `cpu-process` backend: declares the channel model of sockets, fills in a ProcessExecution, and gives
// measured_run.hpp a function that executes it.

#include "backend/process/process_run.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/measured_run.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/process/process_execution.hpp"
#include "backend/process/process_room.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/user_error.hpp"

namespace penstock {
namespace {

constexpr std::string_view kSocketTransport = "sockets";

tl::expected<std::vector<ExecutedRun>, ExecutionError> execute_with(
    const PreparedRun& run, const std::optional<ProcessPlace>& place) {
  const Experiment& experiment = run.experiment;
  const ProcessExecution execution = {
      .program = experiment.program,
      .flat = run.flat,
      .modules = [&](std::int32_t rank, const Clock& clock) { return run.family.modules(rank, clock); },
      .pace = run.pace,
      .codec = run.family.codec(),
      .most_payload_bytes = run.family.most_payload_bytes(),
      .time_scale = run.options.time_scale,
      .runs = run.runs(),
      .deadline = run.deadline,
      .patience_to_join = patience_to_join(run.options),
      .finished = [&](std::int32_t rank,
                      const StageModules& modules) { return run.family.account(rank, modules); }};
  return place ? execute_as_rank(execution, *place) : execute_in_processes(execution);
}

std::optional<std::string> refusal_of(const FlatProgram& flat, const RunOptions& options,
                                      const std::optional<ProcessPlace>& place) {
  ProcessRoom room = process_room();
  if (place) return launched_refusal(flat, place->rank, room);
  room.memory = options.memory;
  return processes_refusal(process_need(flat), room);
}

}  // namespace

tl::expected<std::optional<Result>, UserError> run_on_processes(const Experiment& experiment,
                                                                const PaceOfLinks& pace,
                                                                const RunOptions& options,
                                                                const ModuleFamily& family,
                                                                const std::optional<ProcessPlace>& place) {
  const auto channels = declared_channels(experiment.channels, kSocketTransport);
  if (!channels) return user_error(ErrorKind::check_failed, channels.error());
  return measure(experiment, pace, options, family,
                 {.engine = "cpu-process",
                  .transport = kSocketTransport,
                  .channels = *channels,
                  .execute = [&](const PreparedRun& run) { return execute_with(run, place); },
                  .refusal = [&](const FlatProgram& flat) { return refusal_of(flat, options, place); }});
}

}  // namespace penstock
