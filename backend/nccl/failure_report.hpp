#pragma once
// Gives a failed rank time to report its failure. The coordinator shows the user the first failure that it
// receives. A rank that loses a connection has usually not failed itself. It waits, so that the failed rank
// reports first or the coordinator finds it.

#include "backend/cuda/stream.hpp"

namespace penstock {

/// Waits some seconds, but not longer than the deadline of `limits`. Throws Stopped if another rank has
/// reported a failure.
void wait_for_failure_report(const WaitLimits& limits);

}  // namespace penstock
