#pragma once
// The progress of a worker, which the watchdog and error messages use.

#include <atomic>
#include <cstdint>

#include "schedules/check/flat_program.hpp"

namespace penstock {

/// The progress of one worker. That worker writes it, and all threads may read it. The worker writes since_ns
/// first and a reader reads it last. A reader therefore never combines a new action with an old time.
struct Progress {
  /// The position of the action that runs or waits, or the end of the list if the rank is done.
  std::atomic<std::int32_t> position = kNone;
  /// Message for which the rank waits; kNone if it does not wait.
  std::atomic<std::int32_t> waits_for = kNone;
  std::atomic<std::int64_t> since_ns = 0;  ///< host time of the last change of `position` or `waits_for`
};

}  // namespace penstock
