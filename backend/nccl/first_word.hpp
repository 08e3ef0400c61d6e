#pragma once
// Who loses another's end of a connection is rarely who failed. The one that did is about to say why, or is
// found by who watches over the ranks, and the first failure that the coordinator hears is what people read.

#include "backend/cuda/stream.hpp"

namespace penstock {

/// Waits for some seconds, and no longer than the deadline. Throws Stopped where somebody has spoken.
void let_others_speak(const WaitLimits& limits);

}  // namespace penstock
