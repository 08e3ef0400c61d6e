// A point may take minutes, and nobody who has pressed Ctrl-C waits for it. So points run on another thread:
//
//   this thread    waits for the end or an interrupt ---- takes what is done ---- sweep of known points
//   the other      point, point, point, a long point .............................................. (dropped)

#include "cli/commands/interruptible_sweep.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "cli/interrupt.hpp"
#include "report/result/sweep_table.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/runs/sweep.hpp"

namespace penstock {
namespace {

constexpr std::chrono::milliseconds kLook{20};       // how soon an interrupt is seen
constexpr std::chrono::milliseconds kPatience{200};  // with points that are about to end

/// What both threads know.
struct DonePoints {
  std::mutex mutex;
  bool is_closed = false;
  std::map<std::size_t, SweepPoint> points;
};

/// The grid with callbacks that note what is done, and say nothing once that is closed.
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
  return grid;
}

}  // namespace

Sweep sweep_until(const InterruptNoted& interrupt, const Scenario& scenario, SweepGrid grid) {
  const auto done = std::make_shared<DonePoints>();
  grid.stopped = [&interrupt] { return interrupt.came(); };
  std::packaged_task<Sweep()> task([scenario, noted = noting(grid, done)] { return sweep(scenario, noted); });
  std::future<Sweep> whole = task.get_future();
  std::thread(std::move(task)).detach();
  while (whole.wait_for(kLook) != std::future_status::ready && !interrupt.came()) {
  }
  if (whole.wait_for(kPatience) == std::future_status::ready) return whole.get();
  {
    const std::scoped_lock lock(done->mutex);
    done->is_closed = true;  // so that nothing that the caller owns is called from now on
    grid.known.merge(done->points);
  }
  grid.finished = nullptr;
  grid.progress = nullptr;
  return sweep(scenario, grid);  // begins no point: it was interrupted
}

}  // namespace penstock
