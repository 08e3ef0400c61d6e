// Threads, their supervision and the recorder; what a worker does is in rank_worker.cpp.

#include "backend/executor.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <latch>
#include <limits>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/clock.hpp"
#include "backend/progress.hpp"
#include "backend/rank_worker.hpp"
#include "backend/transport.hpp"
#include "report/timeline.hpp"
#include "report/walk_timeline.hpp"
#include "schedules/action.hpp"
#include "schedules/flat_program.hpp"
#include "schedules/rendezvous_walk.hpp"

namespace penstock {
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

std::size_t index(std::int32_t number) { return static_cast<std::size_t>(number); }

double seconds(nanoseconds duration) { return std::chrono::duration<double>(duration).count(); }

/// Another rank that has a part in the message; of a collective one that has not reached it, if any.
std::int32_t peer_of(const FlatProgram& flat, std::int32_t message, std::int32_t rank,
                     const std::vector<Progress>& progress) {
  const FlatMessage& waited = flat.messages[index(message)];
  if (waited.recv != kNone) return waited.from_rank == rank ? waited.to_rank : waited.from_rank;
  std::int32_t peer = -1;
  for (std::int32_t m = waited.first; m != kNone; m = flat.next_member[index(m)]) {
    const std::int32_t other = flat.rank_of(m);
    if (other == rank) continue;
    peer = other;
    if (progress[index(other)].position <= m) return other;
  }
  return peer;
}

/// One call of execute().
class Run {
 public:
  explicit Run(const Execution& execution)
      : execution_(execution),
        flat_(execution.flat),
        progress_(index(flat_.rank_count)),
        working_(flat_.rank_count) {
    times_.start.assign(flat_.ops.size(), 0);
    times_.end.assign(flat_.ops.size(), 0);
    for (Progress& progress : progress_) progress.since_ns = steady_clock::now().time_since_epoch().count();
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
            .message = fmt::format("rank {}: no thread for its worker: {}", threads.size(), error.what())});
      working_ = static_cast<std::int32_t>(threads.size());
    }
    start_line_.count_down();
    supervise();
    threads.clear();
    if (error_) return tl::unexpected(*std::move(error_));
    return timeline();
  }

 private:
  void work(std::int32_t rank) {
    wake_this_thread_promptly();
    start_line_.wait();
    try {
      RankWorker(execution_, rank, times_, progress_[index(rank)]).run(stop_.get_token());
    } catch (const Stopped&) {  // NOLINT(bugprone-empty-catch): the failure that stopped it is on record
    } catch (const std::exception& error) {
      fail(failure_of(rank, error.what()));
    } catch (...) {
      fail(failure_of(rank, "an exception of unknown type"));
    }
    const std::scoped_lock lock(mutex_);
    --working_;
    changed_.notify_all();
  }

  /// The first failure is the answer. Ends all workers.
  void fail(ExecutionError error) {
    {
      const std::scoped_lock lock(mutex_);
      if (!error_) error_ = std::move(error);
    }
    stop_.request_stop();
    execution_.transport.stop();
  }

  // --- the watchdog -------------------------------------------------------------------------------

  void supervise() {
    const nanoseconds pause = std::clamp<nanoseconds>(execution_.deadline / 10, std::chrono::milliseconds(1),
                                                      std::chrono::milliseconds(100));
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, pause, [this] { return working_ == 0; })) {
      if (error_) continue;
      lock.unlock();
      if (auto late = overdue()) fail(*std::move(late));
      lock.lock();
    }
  }

  nanoseconds standing_for(const Progress& progress) const {
    return steady_clock::now().time_since_epoch() - nanoseconds(progress.since_ns);
  }

  bool is_done(std::int32_t rank) const {
    return progress_[index(rank)].position == flat_.rank_begin[index(rank) + 1];
  }

  std::optional<ExecutionError> overdue() const {
    bool nobody_got_on = true;
    std::vector<std::int32_t> waiting;
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) {
      if (is_done(rank)) continue;
      const bool computes = progress_[index(rank)].waits_for == kNone;
      const bool late = standing_for(progress_[index(rank)]) > execution_.deadline;
      if (late && computes) return overdue_at(rank);
      nobody_got_on &= late;
      waiting.push_back(rank);
    }
    if (!nobody_got_on || waiting.empty()) return std::nullopt;
    return overdue_at(to_blame(waiting));
  }

  /// Of the ranks that all wait: one whose message has no reason to be missing, else the one that waits
  /// longest.
  std::int32_t to_blame(const std::vector<std::int32_t>& waiting) const {
    for (const std::int32_t rank : waiting) {
      const std::int32_t message = progress_[index(rank)].waits_for;
      if (message != kNone && everybody_has_passed(message)) return rank;
    }
    return *std::ranges::min_element(
        waiting, {}, [this](std::int32_t rank) { return progress_[index(rank)].since_ns.load(); });
  }

  bool everybody_has_passed(std::int32_t message) const {
    const FlatMessage& missing = flat_.messages[index(message)];
    if (missing.recv != kNone) return progress_[index(missing.from_rank)].position > missing.producer;
    for (std::int32_t m = missing.first; m != kNone; m = flat_.next_member[index(m)]) {
      if (progress_[index(flat_.rank_of(m))].position <= m) return false;
    }
    return true;
  }

  ExecutionError overdue_at(std::int32_t rank) const {
    const Progress& progress = progress_[index(rank)];
    const double limit = seconds(execution_.deadline);
    const std::int32_t message = progress.waits_for;
    if (message == kNone) return failure_of(rank, fmt::format("still running after {:g} s", limit));
    ExecutionError error{.rank = rank,
                         .action = action_at(progress.position),
                         .peer = peer_of(flat_, message, rank, progress_),
                         .message = {}};
    error.message =
        fmt::format("rank {}: {}: waited {:g} s for {} from rank {}, which stands at {}", rank, error.action,
                    limit, message_name(message), error.peer, standing_text(error.peer));
    return error;
  }

  /// What happened on `rank`, and who waits for it.
  ExecutionError failure_of(std::int32_t rank, const std::string& what) const {
    ExecutionError error{.rank = rank, .action = action_at(progress_[index(rank)].position), .message = {}};
    error.message = fmt::format("rank {}: {}: {}", rank, error.action, what);
    for (std::int32_t other = 0; other < flat_.rank_count; ++other) {
      const std::int32_t message = progress_[index(other)].waits_for;
      if (message == kNone || peer_of(flat_, message, other, progress_) != rank) continue;
      error.peer = other;
      error.message += fmt::format("; rank {} waits for it at {}", other, standing_text(other));
      break;
    }
    return error;
  }

  std::string action_at(std::int32_t position) const {
    if (position == kNone) return "the start";
    return flat_.ops[index(position)] == FlatOp::barrier ? "the barrier"
                                                         : to_text(flat_.actions[index(position)]);
  }

  std::string standing_text(std::int32_t rank) const {
    if (rank < 0) return "no action";
    return is_done(rank) ? "the end of its list" : action_at(progress_[index(rank)].position);
  }

  std::string message_name(std::int32_t message) const {
    const FlatMessage& waited = flat_.messages[index(message)];
    return action_at(waited.recv == kNone ? waited.first : waited.recv);
  }

  // --- the recorder -------------------------------------------------------------------------------

  Timeline timeline() {
    for (std::size_t id = 0; id < flat_.messages.size(); ++id) {
      const MessageTime time = execution_.transport.time_of(static_cast<std::int32_t>(id));
      times_.message_start.push_back(time.start_ns);
      times_.message_end.push_back(time.end_ns);
    }
    Timeline timeline = timeline_of(flat_, execution_.program.placement, times_);
    Ns first = std::numeric_limits<Ns>::max();
    for (const Span& span : timeline.spans) first = std::min(first, span.start_ns);
    for (Span& span : timeline.spans) {
      span.start_ns -= first;
      span.end_ns -= first;
    }
    timeline.makespan_ns -= timeline.spans.empty() ? 0 : first;
    return timeline;
  }

  const Execution& execution_;
  const FlatProgram& flat_;
  std::vector<Progress> progress_;
  Walk times_;
  std::latch start_line_{1};
  std::stop_source stop_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::int32_t working_;  // workers that have not ended
  std::optional<ExecutionError> error_;
};

}  // namespace

tl::expected<Timeline, ExecutionError> execute(const Execution& execution) { return Run(execution).run(); }

}  // namespace penstock
