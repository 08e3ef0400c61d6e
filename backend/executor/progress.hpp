#pragma once
// The progress of a worker, for the watchdog and for error messages. Used only by executors.

#include <atomic>
#include <cstdint>

#include "schedules/check/flat_program.hpp"

namespace penstock {

/// The progress of one worker. One worker writes it, and all threads read it. The worker writes since_ns
/// first and a reader reads it last, so that a reader never combines a new action with an old time.
struct Progress {
  /// Position of the action that runs or waits; the end of the list if the rank is done.
  std::atomic<std::int32_t> position = kNone;
  std::atomic<std::int32_t> waits_for = kNone;  ///< message that the rank waits for, or kNone
  std::atomic<std::int64_t> since_ns = 0;       ///< host time of the last change of the other two
};

}  // namespace penstock
