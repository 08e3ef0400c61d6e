#pragma once
// A rank's thread that runs ahead of its queue, and what the watchdog sees of it. Private to the executors.

#include <cstdint>
#include <functional>
#include <stop_token>
#include <vector>

#include "backend/executor/compute_queue.hpp"
#include "backend/executor/progress.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"

namespace penstock {

/// A RankWorker has one where its compute actions run on a queue. The worker calls begin() and end() around
/// what it would otherwise have computed itself; the times that it reads around them mean nothing then, and
/// write_times() puts those of the queue in their place.
class LaunchAhead {
 public:
  /// `check` throws what has failed elsewhere meanwhile; it is called while the thread waits.
  LaunchAhead(const FlatProgram& flat, std::int32_t rank, ComputeQueue& queue, Progress& progress,
              std::function<void()> check);

  /// Around the calls of the compute group at `position`. begin() waits while too many are under way. Throws
  /// Stopped.
  void begin(std::int32_t position, const std::stop_token& stop);
  void end();
  /// Follows the queue until all that was given has ended. Throws Stopped.
  void drain(const std::stop_token& stop);
  /// After drain(): the times of the rank's compute actions and RESHARDs.
  void write_times(std::int32_t rank, ProgramTimes& times) const;

 private:
  /// Asks the queue how far it is, and shows that. Never waits.
  void follow();
  /// Follows until the condition no longer holds.
  void wait_while(const std::function<bool()>& condition, const std::stop_token& stop);
  /// As RankWorker::stand_at(), but a rank that stands where it stood keeps its time: looking is no progress.
  void show(std::int32_t position, std::int32_t message);
  std::int32_t given() const { return static_cast<std::int32_t>(positions_.size()); }

  const FlatProgram& flat_;
  ComputeQueue& queue_;
  Progress& progress_;
  std::function<void()> check_;
  std::vector<std::int32_t> positions_;  // of the groups that were given, by number
  std::int32_t ended_ = 0;               // how many of them
  bool has_begun_ = false;               // the one behind them
};

}  // namespace penstock
