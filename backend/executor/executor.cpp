// Starts one thread for each rank and supervises them. rank_worker.cpp has the work of a thread. A latch
// makes all threads start at the same time. The calling thread then sleeps until one of three events: all
// ranks are done, a rank has failed, or the watchdog finds a rank without progress. The first failure stops
// the other ranks and is the result of the run. Tests: tests/backend/faults_test.cpp.

#include "backend/executor/executor.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <latch>
#include <limits>
#include <mutex>
#include <new>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/executor/clock.hpp"
#include "backend/executor/rank_worker.hpp"
#include "backend/executor/transport.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

namespace {

using std::chrono::nanoseconds;

/// The data that the threads of one call of execute() share.
class Run {
 public:
  explicit Run(const Execution& execution)
      : execution_(execution),
        flat_(execution.flat),
        progress_(index(flat_.rank_count)),
        watchdog_(flat_, progress_, execution.deadline),
        times_(empty_times(flat_)),
        working_(flat_.rank_count) {
    for (Progress& progress : progress_) progress.since_ns = host_now_ns();
  }

  tl::expected<Timeline, ExecutionError> run() {
    std::vector<std::jthread> threads;
    try {
      for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) {
        threads.emplace_back([this, rank] { work(rank); });
      }
    } catch (const std::exception& error) {
      fail({.rank = static_cast<std::int32_t>(threads.size()),
            .action = "",
            .message = fmt::format("rank {}: no thread for its worker: {}; take fewer ranks, or allow more "
                                   "threads (ulimit -u, pids.max)",
                                   threads.size(), error.what())});
      // working_ counts only the threads that were really started, because no other thread decrements it.
      working_ = static_cast<std::int32_t>(threads.size());
    }
    // The latch is opened even if a thread could not be started. Otherwise the other threads would wait at
    // the latch forever.
    start_line_.count_down();
    supervise();
    // Joins the threads, because their times and errors are read below.
    threads.clear();
    if (error_) return tl::unexpected(*std::move(error_));
    return timeline();
  }

 private:
  /// Runs one rank's list. This is the function of the rank's thread. It catches every exception, because an
  /// exception that leaves a thread ends the process.
  void work(std::int32_t rank) {
    wake_this_thread_promptly();
    start_line_.wait();
    try {
      RankWorker(execution_, rank, times_, progress_[index(rank)]).run(stop_.get_token());
    } catch (const Stopped&) {  // NOLINT(bugprone-empty-catch): the failure that stopped it is on record
    } catch (const std::bad_alloc&) {
      fail(watchdog_.failure_of(rank, "it has too little memory"));
    } catch (const std::exception& error) {
      fail(watchdog_.failure_of(rank, error.what()));
    } catch (...) {
      fail(watchdog_.failure_of(rank, "an exception of unknown type"));
    }
    const std::scoped_lock lock(mutex_);
    --working_;
    changed_.notify_all();
  }

  /// Records the failure of the run if it is the first one, and ends all workers.
  void fail(ExecutionError error) {
    {
      const std::scoped_lock lock(mutex_);
      if (!error_) error_ = std::move(error);
    }
    // The failure is recorded before the stop. Otherwise another worker that fails because of the stop could
    // be recorded first.
    stop_.request_stop();
    execution_.transport.stop();
  }

  /// Looks for ranks that are late according to the watchdog. `pause` is the time since the supervisor's
  /// last look. After a long pause, the whole process may have been suspended. In that case no rank is at
  /// fault.
  void judge(nanoseconds pause) {
    switch (pause_of(pause, execution_.deadline)) {
      case Pause::as_usual:
        if (auto late = watchdog_.overdue(host_now_ns())) fail(*std::move(late));
        return;
      case Pause::too_long_to_judge:
        return;
      case Pause::suspended:
        fail(suspended_for(pause));
        return;
    }
  }

  /// Checks for late ranks until all workers have ended. The function continues after a failure, because
  /// workers may still be running.
  void supervise() {
    // The supervisor checks ten times per deadline, and at least every 100 ms. It therefore finds a late rank
    // at most one such interval after the deadline.
    const nanoseconds pause = std::clamp<nanoseconds>(execution_.deadline / 10, std::chrono::milliseconds(1),
                                                      std::chrono::milliseconds(100));
    std::unique_lock lock(mutex_);
    auto since = std::chrono::steady_clock::now();
    while (!changed_.wait_for(lock, pause, [this] { return working_ == 0; })) {
      const nanoseconds took =
          std::chrono::steady_clock::now() - std::exchange(since, std::chrono::steady_clock::now());
      // A failure is already recorded, so the loop only waits for the workers to end.
      if (error_) continue;
      lock.unlock();
      judge(took);
      lock.lock();
    }
  }

  Timeline timeline() {
    for (std::size_t id = 0; id < flat_.messages.size(); ++id) {
      const MessageTime time = execution_.transport.time_of(static_cast<std::int32_t>(id));
      times_.message_start[id] = time.start_ns;
      times_.message_end[id] = time.end_ns;
    }
    return recorded_timeline(flat_, execution_.program.placement, times_);
  }

  const Execution& execution_;
  const FlatProgram& flat_;
  std::vector<Progress> progress_;
  Watchdog watchdog_;
  ProgramTimes times_;
  std::latch start_line_{1};
  std::stop_source stop_;

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::int32_t working_;  // number of rank threads that have not ended
  std::optional<ExecutionError> error_;
};

}  // namespace

tl::expected<Timeline, ExecutionError> execute(const Execution& execution) { return Run(execution).run(); }

// Makes the timeline of a run. During the run, each worker writes starts and ends into its own elements of
// one table, so recording needs no lock and allocates no memory. After the run, the earliest start is
// subtracted from all times.

Timeline recorded_timeline(const FlatProgram& flat, const Placement& placement, const ProgramTimes& times) {
  Timeline timeline = timeline_of(flat, placement, times);
  Ns first = std::numeric_limits<Ns>::max();
  for (const Span& span : timeline.spans) first = std::min(first, span.start_ns);
  for (Span& span : timeline.spans) {
    span.start_ns -= first;
    span.end_ns -= first;
  }
  // A timeline without spans keeps its makespan, because `first` is then not the time of a span.
  timeline.makespan_ns -= timeline.spans.empty() ? 0 : first;
  return timeline;
}

}  // namespace penstock
