#pragma once
// Where a worker stands, for the watchdog and for error messages. Private to the executors.

#include <atomic>
#include <cstdint>

#include "schedules/check/flat_program.hpp"

namespace penstock {

/// Written by one worker, read by all threads. The worker writes since_ns first and a reader reads it last,
/// so that nobody takes a new action for an old one.
struct Progress {
  std::atomic<std::int32_t> position = kNone;   ///< of the action that runs or waits; the list's end: done
  std::atomic<std::int32_t> waits_for = kNone;  ///< a message; kNone: it does not wait
  std::atomic<std::int64_t> since_ns = 0;       ///< host time at which either of these changed last
};

}  // namespace penstock
