// Who starts the ranks. Without a launcher this process forks them and coordinates; with one, each rank is
// here already and rank 0 coordinates beside its own work, in a thread.
//
//   coordinator (rank 0's process)  <- hello, digest, progress, times --  worker 0 .. K-1
//                                   -- go, verdict, end              ->
//
// Children are forked before the coordinator opens anything, so that they inherit none of its sockets; they
// learn its port through a pipe.

#include "backend/process/process_execution.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "backend/executor/executor.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/process/child_processes.hpp"
#include "backend/process/coordinator.hpp"
#include "backend/process/socket_loop.hpp"
#include "backend/process/worker.hpp"

namespace penstock {
namespace {

tl::unexpected<ExecutionError> failed(std::string message) {
  return tl::unexpected(ExecutionError{.rank = -1, .action = "the start", .message = std::move(message)});
}

}  // namespace

tl::expected<std::vector<ExecutedRun>, ExecutionError> execute_in_processes(
    const ProcessExecution& execution) {
  PortPipe port;  // children that come before the coordinator inherit none of its sockets
  if (!port.is_open()) return failed("cannot make a pipe");
  ChildProcesses children;
  for (std::int32_t rank = 0; rank < execution.flat.rank_count; ++rank) {
    const auto started = children.start([&] {
      const auto coordinator = port.read();
      return coordinator && run_worker(execution, {rank, {.port = *coordinator}}) ? 0 : 1;
    });
    if (!started) return failed(started.error());
  }
  Coordinator coordinator(execution, [&](std::int32_t rank) { return children.how_ended(rank); });
  const auto listens = coordinator.listen({});
  if (!listens) return failed(listens.error());
  port.write(listens->port, execution.flat.rank_count);
  auto runs = coordinator.run();
  children.end_all();
  return runs;
}

tl::expected<std::vector<ExecutedRun>, ExecutionError> execute_as_rank(const ProcessExecution& execution,
                                                                       const ProcessPlace& place) {
  if (place.rank != 0) {
    auto ended = run_worker(execution, place);
    if (!ended) return tl::unexpected(std::move(ended.error()));
    return std::vector<ExecutedRun>{};
  }
  Coordinator coordinator(execution, [](std::int32_t) { return std::optional<std::string>(); });
  const auto listens = coordinator.listen(place.coordinator);
  if (!listens) return failed(listens.error() + "; give all ranks another address or port");
  tl::expected<std::vector<ExecutedRun>, ExecutionError> runs;
  {
    const std::jthread coordinating([&] { runs = coordinator.run(); });
    static_cast<void>(run_worker(execution, {0, *listens}));  // the coordinator's error says it too
  }
  return runs;
}

}  // namespace penstock
