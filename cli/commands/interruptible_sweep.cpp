// A point may take minutes, and nobody who has pressed Ctrl-C waits for it. So points run on another thread:
//
//   this thread    waits for the end or an interrupt ---- takes what is done ---- sweep of known points
//   the other      point, point, point, a long point .............................................. (dropped)

#include "cli/commands/interruptible_sweep.hpp"

#include <atomic>
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

constexpr std::chrono::milliseconds kPatience{200};  // with points that are about to end

}  // namespace

/// What both threads know.
struct SweepUnderWay::DonePoints {
  std::atomic<bool> is_stopped = false;
  std::mutex mutex;
  bool is_closed = false;
  std::map<std::size_t, SweepPoint> points{};
};

namespace {

/// The grid with callbacks that note what is done, and say nothing once that is closed.
template <class DonePoints>
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

SweepUnderWay::SweepUnderWay(const Scenario& scenario, SweepGrid grid)
    : done_(std::make_shared<DonePoints>()) {
  std::packaged_task<Sweep()> task(
      [scenario, noted = noting(std::move(grid), done_)] { return sweep(scenario, noted); });
  whole_ = task.get_future();
  std::thread(std::move(task)).detach();
}

bool SweepUnderWay::has_ended_within(std::chrono::milliseconds patience) const {
  return whole_.wait_for(patience) == std::future_status::ready;
}

Sweep SweepUnderWay::whole() { return whole_.get(); }

void SweepUnderWay::stop() { done_->is_stopped = true; }

std::map<std::size_t, SweepPoint> SweepUnderWay::left_behind() {
  stop();
  if (whole_.valid()) static_cast<void>(has_ended_within(kPatience));
  const std::scoped_lock lock(done_->mutex);
  done_->is_closed = true;
  return std::move(done_->points);
}

Sweep known_points(const Scenario& scenario, SweepGrid grid) {
  grid.finished = nullptr;
  grid.progress = nullptr;
  grid.stopped = [] { return true; };  // begins no point
  return sweep(scenario, grid);
}

Sweep sweep_until(const InterruptNoted& interrupt, const Scenario& scenario, SweepGrid grid) {
  SweepUnderWay points(scenario, grid);
  while (!points.has_ended_within(kLookForInterrupt) && !interrupt.came()) {
  }
  if (points.has_ended_within(std::chrono::milliseconds(0))) return points.whole();
  grid.known.merge(points.left_behind());
  return known_points(scenario, std::move(grid));
}

}  // namespace penstock
