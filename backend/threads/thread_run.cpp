// The `cpu-thread` backend: a function that executes once, which measured_run.hpp calls for each repeat. Each
// repeat has a new clock, new modules and a new transport. The transport supports blocking channels,
// capacities and eager messages, so it prescribes only the channel model.

#include "backend/threads/thread_run.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/measured_run.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/threads/in_process_transport.hpp"
#include "backend/threads/thread_room.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/transports.hpp"

namespace penstock {
namespace {

constexpr std::string_view kThreadTransport = "in-process";

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
  channels.model = find_transport(kThreadTransport)->channels.model;
  return channels;
}

tl::expected<Result, UserError> run_on_threads(const Experiment& experiment, const PaceOfLinks& pace,
                                               const RunOptions& options, const ModuleFamily& family) {
  const auto refusal = [](const FlatProgram& flat) {
    return threads_refusal(static_cast<std::size_t>(flat.rank_count), thread_room());
  };
  auto result = measure(experiment, pace, options, family,
                        {.engine = "cpu-thread",
                         .transport = kThreadTransport,
                         .channels = thread_channels(experiment.channels),
                         .execute = all,
                         .refusal = refusal});
  if (!result) return tl::unexpected(std::move(result.error()));
  return **std::move(result);
}

}  // namespace penstock
