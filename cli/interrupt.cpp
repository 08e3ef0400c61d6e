// Records SIGINT and SIGTERM. The handler only stores the number of the signal, because few other operations
// are safe in a handler. With SA_RESETHAND, a second signal ends the program. If a signal was ignored when
// the program started (as shells do for Ctrl-C with `&`), it stays ignored.

#include "cli/interrupt.hpp"

#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigaction() is POSIX's

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "report/result/sweep_table.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/sweep/sweep.hpp"

namespace penstock {

namespace {

constexpr std::array<int, 2> kSignals = {SIGINT, SIGTERM};

// A signal handler may only use lock-free variables.
std::atomic<int> noted_signal = 0;  // NOLINT(readability-identifier-naming): no constant
static_assert(std::atomic<int>::is_always_lock_free);

void note_signal(int number) { noted_signal = number; }

}  // namespace

InterruptNoted::InterruptNoted() {
  noted_signal = 0;  // clears the signal of an earlier object
  struct sigaction action{};
  action.sa_handler = note_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
  }
}

InterruptNoted::~InterruptNoted() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

bool InterruptNoted::came() const { return noted_signal != 0; }

void InterruptNoted::end_if_it_came() {
  if (!came()) return;
  // The default action ends the program by the signal. A shell then sees status 130 and stops its script, and
  // make removes its target.
  std::signal(noted_signal, SIG_DFL);
  std::raise(noted_signal);
}

// Ends a sweep soon after Ctrl-C, although one point may take minutes. For this purpose, another thread runs
// the points:
//
//   this thread    waits for the end or an interrupt ---- takes the finished points ---- returns their sweep
//   the other      point, point, point, a long point ..............................................
//   (abandoned)

namespace {

/// The interval at which the waiting thread checks for an interrupt.
constexpr std::chrono::milliseconds kLook{20};
/// The time that running points get after an interrupt to finish their work.
constexpr std::chrono::milliseconds kPatience{200};

/// The finished points of a sweep, which the waiting thread and the working thread share.
struct DonePoints {
  std::atomic<bool> is_stopped = false;
  std::mutex mutex;
  bool is_closed = false;
  std::map<std::size_t, SweepPoint> points{};
};

/// Returns the grid of the sweep with callbacks that store finished points in `done`. When `done` is
/// closed, the callbacks do nothing.
SweepGrid noting(SweepGrid grid, const std::shared_ptr<DonePoints>& done) {
  grid.finished = [done, finished = std::move(grid.finished)](std::size_t number, const SweepPoint& point) {
    const std::scoped_lock lock(done->mutex);
    if (done->is_closed) return;
    done->points.emplace(number, point);
    if (finished) finished(number, point);
  };
  grid.progress = [done, progress = std::move(grid.progress)](std::size_t count, std::size_t total) {
    const std::scoped_lock lock(done->mutex);
    if (!done->is_closed && progress) progress(count, total);
  };
  grid.stopped = [done] { return done->is_stopped.load(); };
  return grid;
}

}  // namespace

Sweep sweep_until(const InterruptNoted& interrupt, const Scenario& scenario, SweepGrid grid) {
  const auto done = std::make_shared<DonePoints>();
  std::packaged_task<Sweep()> task([scenario, noted = noting(grid, done)] { return sweep(scenario, noted); });
  std::future<Sweep> whole = task.get_future();
  std::thread(std::move(task)).detach();
  while (whole.wait_for(kLook) != std::future_status::ready && !interrupt.came()) {
  }
  done->is_stopped = true;
  if (whole.wait_for(interrupt.came() ? kPatience : kLook) == std::future_status::ready) return whole.get();
  {
    const std::scoped_lock lock(done->mutex);
    done->is_closed = true;
    grid.known.merge(done->points);
  }
  // No other thread changes the points any more. Because `stopped` returns true, the sweep below returns the
  // known points and starts no others.
  grid.finished = nullptr;
  grid.progress = nullptr;
  grid.stopped = [] { return true; };
  return sweep(scenario, grid);
}

}  // namespace penstock
