#pragma once
// A rank's thread that runs ahead of its queue, and the progress that the watchdog sees. Used only by
// executors.

#include <cstdint>
#include <functional>
#include <stop_token>
#include <vector>

#include "backend/executor/compute_queue.hpp"
#include "backend/executor/progress.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"

namespace penstock {

/// A RankWorker has one if its compute actions run on a queue. The worker calls begin() and end() around the
/// calls that it would otherwise time itself. write_times() then replaces those times by the queue's.
class LaunchAhead {
 public:
  /// `check` is called while the thread waits, and throws if a failure has happened elsewhere.
  LaunchAhead(const FlatProgram& flat, std::int32_t rank, ComputeQueue& queue, Progress& progress,
              std::function<void()> check);

  /// Enclose the calls of the compute group at `position`. begin() waits while the queue is full. Throws
  /// Stopped.
  void begin(std::int32_t position, const std::stop_token& stop);
  void end();
  /// Follows the queue until all submitted actions have ended. Throws Stopped.
  void drain(const std::stop_token& stop);
  /// Writes the times of the rank's compute actions and RESHARDs. Requires a call of drain() before.
  void write_times(std::int32_t rank, ProgramTimes& times) const;

 private:
  /// Asks the queue for its progress and publishes it. Never waits.
  void follow();
  /// Follows the queue while the condition holds.
  void wait_while(const std::function<bool()>& condition, const std::stop_token& stop);
  /// Publishes the position like RankWorker::stand_at(). If it has not changed, the time of the last change
  /// stays, because a look is no progress.
  void show(std::int32_t position, std::int32_t message);
  std::int32_t given() const { return static_cast<std::int32_t>(positions_.size()); }

  const FlatProgram& flat_;
  ComputeQueue& queue_;
  Progress& progress_;
  std::function<void()> check_;
  std::vector<std::int32_t> positions_;  // positions of the submitted groups, by number
  std::int32_t ended_ = 0;               // number of groups that have ended
  bool has_begun_ = false;               // whether the next group has begun
};

}  // namespace penstock
