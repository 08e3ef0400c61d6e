// Starts the ranks of a run. Without a launcher, this process forks the ranks and runs the coordinator. With
// a launcher, each rank is already a process, and rank 0 runs the coordinator in a second thread:
//
//     coordinator (rank 0's process)  <- hello, digest, progress, times --  worker 0 .. K-1
//                                     -- go, verdict, end              ->
//
// Forked ranks are connected by socket pairs, which no other process can reach. Launched ranks are connected
// by TCP, and every message proves that its sender knows the job's secret. Tests:
// tests/backend/process_run_test.cpp.

#include "backend/process/process_execution.hpp"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "backend/executor/executor.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/process/child_processes.hpp"
#include "backend/process/coordinator.hpp"
#include "backend/process/rank_sockets.hpp"
#include "backend/process/socket_transport.hpp"
#include "backend/process/worker.hpp"

namespace penstock {
namespace {

tl::unexpected<ExecutionError> failed(std::string message) {
  return tl::unexpected(ExecutionError{.rank = -1, .action = "the start", .message = std::move(message)});
}

}  // namespace

tl::expected<std::vector<ExecutedRun>, ExecutionError> execute_in_processes(
    const ProcessExecution& execution) {
  // Each rank and each pair of ranks needs sockets, which may exceed the usual limit of open files.
  const MostDescriptors many;
  const std::vector<std::vector<std::int32_t>> peers = peers_of_ranks(execution.flat);
  RankSockets sockets(peers);
  ChildProcesses children;
  for (std::int32_t rank = 0; rank < execution.flat.rank_count; ++rank) {
    if (auto opened = sockets.open_for(rank); !opened) return failed(opened.error());
    const auto started = children.start([&] {
      const auto ended = run_worker(execution, rank, sockets.take(rank));
      // If the child could not send its error, the parent reads it from this exception's text.
      if (!ended) throw std::runtime_error(ended.error().message);
      return 0;
    });
    if (!started) return failed(started.error());
    // The parent closes the child's ends. Otherwise the connections would stay open when the child dies.
    sockets.close_ends_of(rank);
  }
  if (execution.forked) execution.forked();
  Coordinator coordinator(execution,
                          {.how_ended = [&](std::int32_t rank) { return children.how_ended(rank); },
                           .is_suspended = [&](std::int32_t rank) { return children.is_suspended(rank); }});
  coordinator.adopt(sockets.take_coordinators());
  auto runs = coordinator.run();
  children.end_all();
  return runs;
}

tl::expected<std::vector<ExecutedRun>, ExecutionError> execute_as_rank(const ProcessExecution& execution,
                                                                       const ProcessPlace& place) {
  const MostDescriptors many;
  if (place.rank != 0) {
    auto ended = run_worker(execution, place);
    if (!ended) return tl::unexpected(std::move(ended.error()));
    return std::vector<ExecutedRun>{};
  }
  Coordinator coordinator(execution, {});
  const auto meeting = coordinator.listen(place);
  if (!meeting) return failed(meeting.error());
  tl::expected<std::vector<ExecutedRun>, ExecutionError> runs;
  {
    // The thread is joined at the end of this block, so that `runs` is complete before the return.
    const std::jthread coordinating([&] { runs = coordinator.run(); });
    // The worker's error is ignored, because the coordinator reports the same one.
    static_cast<void>(run_worker(execution, *meeting));
  }
  return runs;
}

}  // namespace penstock
