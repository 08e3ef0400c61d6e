// Runs one rank in its own process, with two threads. The caller's thread runs the rank's list. The other
// thread moves all frames, reports the progress, and receives the coordinator's messages
// (worker_connections.cpp). coordinator.cpp has the other side of the protocol. Tests:
// tests/backend/process_run_test.cpp.

#include "backend/process/process_run.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <exception>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/rank_worker.hpp"
#include "backend/executor/transport.hpp"
#include "backend/process/clock_alignment.hpp"
#include "backend/process/control_message.hpp"
#include "backend/process/fault_judge.hpp"
#include "backend/process/job_secret.hpp"
#include "backend/process/process_execution.hpp"
#include "backend/process/socket_loop.hpp"
#include "backend/process/socket_transport.hpp"
#include "backend/process/worker_connections.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/digest.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

class Worker {
 public:
  Worker(const ProcessExecution& execution, std::int32_t rank, HostClock host)
      : execution_(execution),
        rank_(rank),
        host_(std::move(host)),
        digest_(digest(execution.program)),
        progress_(index(execution.flat.rank_count)),
        connections_(execution, rank, progress_, host_) {}

  tl::expected<void, ExecutionError> run(RankEnds ends) {
    connections_.adopt(std::move(ends));
    return take_part({});
  }

  tl::expected<void, ExecutionError> run(const ProcessPlace& place) {
    const auto data = connections_.reach(place);
    auto ended = data ? take_part(*data) : tl::unexpected(data.error());
    // If rank 0 was killed, it could not remove its secret file, so this rank removes it.
    if (!ended && place.secret.empty()) remove_abandoned_secret(place.coordinator.port);
    return ended;
  }

 private:
  /// Joins the coordinator and performs all runs. `data` is the address at which this rank accepts
  /// connections from its peers. Forked ranks are already connected and pass the default.
  tl::expected<void, ExecutionError> take_part(const Endpoint& data) {
    join(data);  // the Hello must be sent before the first report
    const std::jthread moving = connections_.start_moving();
    try {
      connections_.meet_peers(connections_.welcome());
      const MakeRankTransport make = transport_maker();
      while (const auto next = connections_.next_run()) run_once(*next, make);
      return {};
    } catch (const Stopped&) {  // NOLINT(bugprone-empty-catch): the verdict says why
    } catch (const std::bad_alloc&) {
      connections_.give_up("it has too little memory");
    } catch (const std::exception& error) {
      connections_.give_up(error.what());
    } catch (...) {
      connections_.give_up("an exception of unknown type");
    }
    return tl::unexpected(connections_.verdict());
  }

  void join(const Endpoint& data) {
    connections_.say(Hello{.rank = rank_,
                           .process_id = getpid(),
                           .digest = digest_,
                           .boot_id = own_boot_id(data),
                           .data = data});
  }

  /// Returns the boot id of the rank's host, by which the coordinator sees which ranks are on other hosts.
  /// For forked ranks, returns an empty text, because they share the host of their parent.
  std::string own_boot_id(const Endpoint& data) const {
    if (data.port == 0) return "";
    return host_.boot_id.empty() ? boot_id() : host_.boot_id;
  }

  /// Converts a time of the clock that this rank reports to the coordinator to this machine's steady clock.
  steady_clock::time_point steady_moment(Ns of_host_ns) const {
    return steady_clock::time_point(nanoseconds(host_.steady_at(of_host_ns)));
  }

  MakeRankTransport transport_maker() {
    if (!execution_.transport) return [this](const RankRun& run) { return over_sockets(run); };
    return execution_.transport(rank_,
                                [stopped = connections_.stopped()] { return stopped.stop_requested(); });
  }

  RankTransport over_sockets(const RankRun& run) const {
    auto sockets = std::make_unique<SocketTransport>(SocketTransportParts{.flat = execution_.flat,
                                                                          .pace = execution_.pace,
                                                                          .clock = run.clock,
                                                                          .codec = execution_.codec,
                                                                          .rank = rank_,
                                                                          .run = run.run,
                                                                          .send = run.send});
    SocketTransport& transport = *sockets;
    return {
        .transport = std::move(sockets),
        .own_times = [&transport] { return transport.own_times(); },
        .receive = [&transport](std::int32_t peer, const Frame& frame) { transport.receive(peer, frame); }};
  }

  /// Performs one run, from Prepare to Done. Makes new modules and a new transport, so that no state of an
  /// earlier run remains.
  void run_once(const Prepare& next, const MakeRankTransport& make) {
    const SteadyClock clock(execution_.time_scale / host_.rate, steady_moment(next.origin_ns));
    StageModules modules = execution_.modules(rank_, clock);
    RankTransport transport =
        make({.run = next.run, .clock = clock, .send = [this](std::int32_t peer, Frame frame) {
                connections_.send(peer, std::move(frame));
              }});
    // The transport must receive frames before Ready is sent, because peers may send as soon as all ranks are
    // ready.
    const WorkerConnections::Attached attached(connections_, transport);
    // The following progress reports are about this run, which has not started yet.
    stand_at_start();
    connections_.say(Ready{next.run});
    const Go go = connections_.go();
    std::this_thread::sleep_until(steady_moment(go.start_ns));
    stand_at_start();
    ProgramTimes times = empty_times(execution_.flat);
    // Execution::queues has one element per rank, but the worker uses only the element of its own rank.
    std::vector<ComputeQueue*> queues;
    if (transport.queue != nullptr) queues.assign(index(execution_.flat.rank_count), transport.queue.get());
    RankWorker({.program = execution_.program,
                .flat = execution_.flat,
                .modules = modules,
                .transport = *transport.transport,
                .clock = clock,
                .queues = queues},
               rank_, times, progress_[index(rank_)])
        .run(connections_.stopped());
    Done done = done_of(execution_.flat, rank_, next.run, times, transport.own_times());
    if (execution_.finished) done.account = execution_.finished(rank_, modules);
    connections_.say(done);
  }

  void stand_at_start() {
    Progress& progress = progress_[index(rank_)];
    progress.since_ns = host_now_ns();
    progress.position = kNone;
    progress.waits_for = kNone;
  }

  const ProcessExecution& execution_;
  std::int32_t rank_;
  HostClock host_;
  std::string digest_;              // digest of the program, computed before the coordinator waits for it
  std::vector<Progress> progress_;  // progress of each rank; only this rank's element is written
  WorkerConnections connections_;
};

}  // namespace

tl::expected<void, ExecutionError> run_worker(const ProcessExecution& execution, const ProcessPlace& place) {
  wake_this_thread_promptly();
  return Worker(execution, place.rank, place.host).run(place);
}

tl::expected<void, ExecutionError> run_worker(const ProcessExecution& execution, std::int32_t rank,
                                              RankEnds ends) {
  wake_this_thread_promptly();
  return Worker(execution, rank, {}).run(std::move(ends));
}

std::string boot_id() {
  errno = 0;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  if (errno == EMFILE || errno == ENFILE)
    throw std::system_error(errno, std::generic_category(), "the boot id");
  std::string id;
  if (std::getline(file, id) && !id.empty()) return id;
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

nanoseconds report_period(const ProcessExecution& execution) {
  // Errors name the action that was reported last, so reports must be frequent. However, if a thousand ranks
  // reported every 20 ms, the coordinator would use a whole core.
  constexpr std::chrono::microseconds kForEachRank(200);
  const nanoseconds longest =
      std::max<nanoseconds>(std::chrono::milliseconds(20), execution.flat.rank_count * kForEachRank);
  return std::clamp<nanoseconds>(execution.deadline / 8, std::chrono::milliseconds(1), longest);
}

}  // namespace penstock
