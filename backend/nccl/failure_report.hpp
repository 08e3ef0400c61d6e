#pragma once
// Gives the rank at fault time to report. A rank that loses a connection is rarely the one that failed. The
// failed rank is about to report why, or the coordinator finds it. Users see the first failure that reaches
// the coordinator.

#include "backend/cuda/stream.hpp"

namespace penstock {

/// Waits for some seconds, and at most until the deadline. Throws Stopped if another rank has reported a
/// failure.
void wait_for_failure_report(const WaitLimits& limits);

}  // namespace penstock
