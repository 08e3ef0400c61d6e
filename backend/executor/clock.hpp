#pragma once
// The clock of a run. All times of the recorded timeline are read from it. Modules and emulated links use it
// to block workers for a given time.

#include <chrono>
#include <stop_token>

#include "schedules/ir/action.hpp"

namespace penstock {

/// A monotonic clock that all workers of one process share.
class Clock {
 public:
  Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  virtual ~Clock() = default;

  /// Returns the nanoseconds since a fixed moment before the run.
  virtual Ns now_ns() const = 0;
  /// Blocks the calling thread for `duration_ns` on this clock, without using the processor. If a stop is
  /// requested, returns within 50 ms.
  virtual void hold_for(Ns duration_ns, const std::stop_token& stop) const = 0;
  /// Converts a time of this clock to a time of the host's steady clock. Timed waits on condition variables
  /// need the host's time.
  virtual std::chrono::steady_clock::time_point moment_of(Ns time_ns) const = 0;
};

/// The host's steady clock, slowed down by `scale`. With `scale` 10, hold_for() takes ten times as long, and
/// now_ns() returns a tenth of the elapsed time. A program whose actions take microseconds can then run,
/// although the operating system schedules in milliseconds.
class SteadyClock : public Clock {
 public:
  /// Starts the clock now. Requires scale > 0.
  explicit SteadyClock(double scale = 1);
  /// Starts the clock at a given moment. Processes of one host that pass the same moment share the clock.
  SteadyClock(double scale, std::chrono::steady_clock::time_point start) : start_(start), scale_(scale) {}

  Ns now_ns() const override;
  void hold_for(Ns duration_ns, const std::stop_token& stop) const override;
  std::chrono::steady_clock::time_point moment_of(Ns time_ns) const override;

 private:
  std::chrono::steady_clock::time_point start_;
  double scale_;
};

/// Asks the kernel to wake the calling thread without the usual delay of up to 50 us. Does nothing on systems
/// without this setting.
void wake_this_thread_promptly();

}  // namespace penstock
