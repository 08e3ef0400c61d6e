#pragma once
// The clock of a run: the recorder reads it, and modules and emulated links hold workers by it.

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

  /// Returns the time since a fixed moment before the run.
  virtual Ns now_ns() const = 0;
  /// Blocks the calling thread for `duration_ns` from the call on, without using the processor. Returns
  /// early, within 50 ms, when a stop is requested.
  virtual void hold_for(Ns duration_ns, const std::stop_token& stop) const = 0;
  /// Returns the moment of `time_ns` for timed waits on condition variables.
  virtual std::chrono::steady_clock::time_point moment_of(Ns time_ns) const = 0;
};

/// The host's clock. With `scale` 10 every hold takes ten times as long, and times are read as a tenth. A
/// program of microseconds can then be measured although the operating system schedules in milliseconds.
class SteadyClock : public Clock {
 public:
  /// Starts the clock now. Requires scale > 0.
  explicit SteadyClock(double scale = 1);
  /// Starts the clock at a given moment, which other processes of this host may share.
  SteadyClock(double scale, std::chrono::steady_clock::time_point start) : start_(start), scale_(scale) {}

  Ns now_ns() const override;
  void hold_for(Ns duration_ns, const std::stop_token& stop) const override;
  std::chrono::steady_clock::time_point moment_of(Ns time_ns) const override;

 private:
  std::chrono::steady_clock::time_point start_;
  double scale_;
};

/// Lets the kernel wake the calling thread without its usual slack of 50 us. Does nothing on systems without
/// such a setting.
void wake_this_thread_promptly();

}  // namespace penstock
