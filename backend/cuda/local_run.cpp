// The `cuda-local` backend: K workers in one process, each with a thread and a partition of SMs. Messages are
// copies on streams. All repeats use the same workers, links and buffers. Each repeat has its own clock,
// modules and transport, so that it has no data of an earlier repeat. Emulated links need kernels on SMs that
// belong to no worker. Tests: tests/backend/standin.

#include "backend/cuda/local_run.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/local_transport.hpp"
#include "backend/cuda/stream_queue.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/measured_run.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/transport.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

constexpr std::string_view kTransport = "cuda-streams";
constexpr std::int32_t kQueuesOfGpu = 32;  // the most that CUDA gives a process

/// Returns true if any message must take longer than its copy, because the scenario states latencies or
/// bandwidths of links.
bool emulates_links(const LinkPace& pace) {
  const auto takes_time = [](const std::vector<Ns>& times) {
    return std::ranges::any_of(times, [](Ns time) { return time > 0; });
  };
  return takes_time(pace.hold) || takes_time(pace.latency);
}

/// Runs the program once. Its local variables must be destroyed in this order: the queues wait for events
/// of the transport, and the transport copies tensors of the modules.
tl::expected<ExecutedRun, ExecutionError> once(const PreparedRun& run, const CudaWorkers& workers,
                                               CudaLinks& links, const LaunchCountsOfRanks& counts,
                                               const DeviceCodec* codec) {
  const SteadyClock clock(run.options.time_scale);
  StageModules modules = run.family.modules(std::nullopt, clock);
  CudaLocalTransport transport({.flat = run.flat,
                                .pace = run.pace,
                                .clock = clock,
                                .time_scale = run.options.time_scale,
                                .workers = workers,
                                .links = links,
                                .codec = codec});
  const auto queues = stream_queues(run.flat, workers, clock, run.options.time_scale, counts);
  std::vector<ComputeQueue*> of_ranks;
  of_ranks.reserve(queues.size());
  for (const auto& queue : queues) of_ranks.push_back(queue.get());
  auto executed = execute_on_threads(run, modules, transport, clock, of_ranks);
  // The queue of a rank would wait only for the rank's own stream. The ranks share the device, so this call
  // waits for the streams of all ranks.
  transport.end_or_give_up_all();
  return executed;
}

tl::expected<std::vector<ExecutedRun>, ExecutionError> all(const PreparedRun& run, const CudaWorkers& workers,
                                                           const DeviceCodec* codec) {
  if (emulates_links(run.pace) && !workers.can_pace_links()) {
    return tl::unexpected(ExecutionError{
        .rank = 0,
        .action = "the start",
        .message = "the cluster's links cannot be emulated: the workers' partitions leave no SMs for them; "
                   "take a cluster with free links, or fewer ranks"});
  }
  CudaLinks links(run.flat, workers, run.experiment.costs);
  const LaunchCountsOfRanks counts = no_launch_counts(run.flat.rank_count);
  std::vector<ExecutedRun> runs;
  for (std::int32_t i = 0; i < run.runs(); ++i) {
    auto executed = once(run, workers, links, counts, codec);
    if (!executed) return tl::unexpected(std::move(executed.error()));
    runs.push_back(*std::move(executed));
    run.report_finished(runs.size());
  }
  return runs;
}

tl::unexpected<UserError> unavailable(std::string_view why) {
  return user_error(ErrorKind::not_available, fmt::format("cuda-local: {}", why));
}

std::vector<std::optional<CudaPlace>> places_of(const CudaWorkers& workers) {
  std::vector<std::optional<CudaPlace>> places;
  places.reserve(static_cast<std::size_t>(workers.count()));
  for (std::int32_t worker = 0; worker < workers.count(); ++worker)
    places.emplace_back(workers.place(worker));
  return places;
}

/// Calls `work` and returns its result. If a CUDA call in it throws an exception, the function returns an
/// error instead.
tl::expected<std::optional<Result>, UserError> without_exceptions(
    const std::function<tl::expected<std::optional<Result>, UserError>()>& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    return user_error(ErrorKind::run_failed, fmt::format("cuda-local: {}", error.what()));
  }
}

}  // namespace

tl::expected<std::optional<Result>, UserError> run_on_cuda_local(const Experiment& experiment,
                                                                 const PaceOfLinks& pace,
                                                                 const RunOptions& options,
                                                                 const MakeCudaModules& make) {
  // A program with channel options that this transport lacks is refused before a GPU is searched.
  if (const auto channels = declared_channels(experiment.channels, kTransport); !channels)
    return user_error(ErrorKind::check_failed, channels.error());
  ask_for_hardware_queues();
  return without_exceptions([&]() -> tl::expected<std::optional<Result>, UserError> {
    const auto workers = CudaWorkers::create(experiment.program.rank_count());
    if (!workers) return unavailable(workers.error());
    return run_on_workers(experiment, pace, options, *workers, make);
  });
}

tl::expected<std::optional<Result>, UserError> run_on_workers(const Experiment& experiment,
                                                              const PaceOfLinks& pace,
                                                              const RunOptions& options,
                                                              const CudaWorkers& workers,
                                                              const MakeCudaModules& make) {
  const auto channels = declared_channels(experiment.channels, kTransport);
  if (!channels) return user_error(ErrorKind::check_failed, channels.error());
  return without_exceptions([&]() -> tl::expected<std::optional<Result>, UserError> {
    const auto modules = make(places_of(workers));
    if (!modules) return unavailable(modules.error());
    auto result =
        measure(experiment, pace, options, *modules->family,
                {.engine = "cuda-local",
                 .transport = kTransport,
                 .channels = *channels,
                 .execute = [&](const PreparedRun& run) { return all(run, workers, modules->codec.get()); }});
    if (result && *result) (*result)->notes.push_back("workers: " + workers.description());
    return result;
  });
}

void ask_for_hardware_queues(std::int32_t processes_per_gpu) {
  const std::int32_t queues = std::max(1, kQueuesOfGpu / processes_per_gpu);
  // No other thread runs yet. POSIX declares setenv() in <cstdlib>.
  // NOLINTBEGIN(concurrency-mt-unsafe,misc-include-cleaner)
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", std::to_string(queues).c_str(), 0);
  // NOLINTEND(concurrency-mt-unsafe,misc-include-cleaner)
}

}  // namespace penstock
