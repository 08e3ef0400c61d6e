#pragma once
// Lets a rank's thread submit compute actions to its queue ahead of time, and publishes the queue's progress
// for the watchdog. Only executors use it.

#include <cstdint>
#include <functional>
#include <stop_token>
#include <vector>

#include "backend/executor/executor.hpp"
#include "backend/executor/transport.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"

namespace penstock {

/// The helper of a RankWorker that runs its compute actions on a queue. The worker calls begin() before and
/// end() after the device calls of each compute group. After the run, write_times() replaces the worker's
/// times by the times that the queue measured.
class LaunchAhead {
 public:
  /// Makes the helper of `rank`. While the thread waits, it calls `check`, which throws if another part of
  /// the run has failed.
  LaunchAhead(const FlatProgram& flat, std::int32_t rank, ComputeQueue& queue, Progress& progress,
              std::function<void()> check);

  /// begin() and end() enclose the device calls of the compute group or WAIT at `position`. begin() waits
  /// while the queue has no room for the launches of the group. It throws Stopped if the run has failed.
  void begin(std::int32_t position, const std::stop_token& stop);
  void end();
  /// Waits while the condition holds, and publishes the queue's progress. Throws Stopped.
  void wait_while(const std::function<bool()>& condition, const std::stop_token& stop);
  /// Waits until the queue has finished all submitted actions, and publishes the rank's progress meanwhile.
  /// Throws Stopped.
  void drain(const std::stop_token& stop);
  /// Writes the times of the rank's compute actions, WAITs and RESHARDs into `times`. Requires that drain()
  /// has returned.
  void write_times(std::int32_t rank, ProgramTimes& times) const;

 private:
  /// Finds which submitted actions have begun and which have ended, and publishes this as the rank's
  /// progress. Never waits.
  void follow();
  /// Records the number of launches of the last submitted group. This includes the launches that the
  /// transport made after the group.
  void count_last();
  /// Publishes the position of the rank and the message for which it waits, like RankWorker::stand_at(). If
  /// neither has changed, the time of the last progress stays the same.
  void show(std::int32_t position, std::int32_t message);
  std::int32_t given() const { return static_cast<std::int32_t>(positions_.size()); }

  const FlatProgram& flat_;
  ComputeQueue& queue_;
  Progress& progress_;
  std::function<void()> check_;
  std::int32_t first_ = 0;  // position of the first action of the rank's list
  // For each compute group, the largest number of launches that a group with the same stages and kinds has
  // made. The index is the position in the list, and 0 means that the number is not known.
  std::vector<std::int64_t*> known_;
  std::vector<std::int32_t> positions_;  // position of each submitted group, in the order of submission
  std::vector<std::int64_t> launches_;   // launches of each submitted group, in the order of submission
  std::int64_t unfinished_ = 0;          // number of launches of all groups that have not ended
  std::int64_t counted_ = 0;    // number of launches that the thread had made when the last group began
  std::int32_t submitted_ = 0;  // number of groups for which end() was called
  std::int32_t ended_ = 0;      // number of groups that have ended
  bool has_begun_ = false;      // true if the first group that has not ended has begun
};

}  // namespace penstock
