#pragma once
// Runs a rank's compute actions on its worker's stream, and converts a device's %globaltimer to the clock of
// the run.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/launch_count.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/clock.hpp"
#include "backend/executor/transport.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// A conversion of times from the device's timer to the clock of the run. The constructor measures the
/// offset between the two clocks, with an error of a few microseconds. The offset drifts by a few parts in
/// a million, so each run makes a new object.
class DeviceTime {
 public:
  /// Measures the offset between the device's timer and `clock`. It runs a few kernels on `stream` and
  /// waits for them, or until `stopped` returns true. `scale` is the scale of the run's clock. Throws
  /// CudaError.
  DeviceTime(const Clock& clock, double scale, const StreamView& stream,
             const std::function<bool()>& stopped = {});

  /// Returns the time of the run's clock that belongs to a time of the device's timer.
  Ns of(std::uint64_t moment) const;

 private:
  double scale_;
  Ns clock_ns_ = 0;           // time of the run's clock when the device's timer showed moment_
  std::uint64_t moment_ = 0;  // time of the device's timer at the comparison
};

// Runs the compute actions of a rank on its worker's CUDA stream.

/// A ComputeQueue that runs actions on a CUDA stream. The device measures the times of the actions. The
/// constructor allocates all memory and events that the queue needs.
class StreamQueue : public ComputeQueue {
 public:
  /// Makes the queue for the rank's list in `flat`, on `stream`. `device_time` converts the device's times to
  /// the clock of the run. `counts` has the launches of the rank's earlier runs.
  StreamQueue(const FlatProgram& flat, std::int32_t rank, const StreamView& stream,
              std::shared_ptr<LaunchCounts> counts, const DeviceTime& device_time);

  ~StreamQueue() override { end_or_give_up(stream_); }  // kernels may still write times into moments_
  StreamQueue(const StreamQueue&) = delete;
  StreamQueue& operator=(const StreamQueue&) = delete;

  std::int64_t most_launches() const override { return kMostLaunches; }
  std::int64_t launches() const override { return launches_of_this_thread; }
  LaunchCounts& counts() override { return *counts_; }
  void begin(std::int32_t number) override;
  void end(std::int32_t number) override;
  bool has_begun(std::int32_t number) const override { return event(begun_, number).has_passed(); }
  bool has_ended(std::int32_t number) const override { return event(ended_, number).has_passed(); }
  MessageTime time_of(std::int32_t number) const override;

 private:
  const CudaEvent& event(const std::vector<CudaEvent>& events, std::int32_t number) const {
    return events[static_cast<std::size_t>(number) % events.size()];
  }
  CudaEvent& event(std::vector<CudaEvent>& events, std::int32_t number) {
    return events[static_cast<std::size_t>(number) % events.size()];
  }

  StreamView stream_;
  std::shared_ptr<LaunchCounts> counts_;
  DeviceTime device_time_;
  PinnedMoments moments_;         // start and end of each action, written by kernels
  std::vector<CudaEvent> begun_;  // events of the last actions, used cyclically
  std::vector<CudaEvent> ended_;
};

/// The numbers of launches that the actions of each rank make, by rank. All runs of a program use and extend
/// these counts.
using LaunchCountsOfRanks = std::vector<std::shared_ptr<LaunchCounts>>;
LaunchCountsOfRanks no_launch_counts(std::int32_t ranks);

/// Returns one queue for each rank, on the stream of the rank's worker.
std::vector<std::unique_ptr<StreamQueue>> stream_queues(const FlatProgram& flat, const CudaWorkers& workers,
                                                        const Clock& clock, double scale,
                                                        const LaunchCountsOfRanks& counts);

}  // namespace penstock
