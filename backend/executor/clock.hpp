#pragma once
// The time of a run: what the recorder reads, and how long things are held.

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

  /// Since some fixed moment before the run.
  virtual Ns now_ns() const = 0;
  /// Holds the calling thread for that long, counted from the call, without burning the processor. Returns
  /// early, within 50 ms, when a stop is requested.
  virtual void hold_for(Ns duration_ns, const std::stop_token& stop) const = 0;
  /// The moment of `time_ns` for timed waits on condition variables.
  virtual std::chrono::steady_clock::time_point moment_of(Ns time_ns) const = 0;
};

/// The host's clock. With `scale` 10 everything is held ten times as long, and times are read as a tenth, so
/// that a program of microseconds can be measured by a scheduler that needs milliseconds.
class SteadyClock : public Clock {
 public:
  /// Requires scale > 0. Starts now.
  explicit SteadyClock(double scale = 1);
  /// Starts at a moment that other processes of this host may share.
  SteadyClock(double scale, std::chrono::steady_clock::time_point start) : start_(start), scale_(scale) {}

  Ns now_ns() const override;
  void hold_for(Ns duration_ns, const std::stop_token& stop) const override;
  std::chrono::steady_clock::time_point moment_of(Ns time_ns) const override;

 private:
  std::chrono::steady_clock::time_point start_;
  double scale_;
};

/// Lets the kernel wake the calling thread without its usual 50 us of slack. Does nothing where the system
/// has no such setting.
void wake_this_thread_promptly();

}  // namespace penstock
