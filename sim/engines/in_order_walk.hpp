#pragma once
// The short cut of critical_path.cpp for what nearly every program is: transfers in one queue per ordered
// pair of ranks, posted in the same order at both ends.

#include <optional>

#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"

namespace penstock {

/// The timeline that critical_path() returns, or nothing when the short cut does not hold: other channels
/// than unlimited non-blocking `directed` ones, collectives, a barrier between iterations, two ends that
/// order a channel differently, or a program that hangs. Time and memory O(actions).
std::optional<Timeline> in_order_walk(const Experiment& experiment);

}  // namespace penstock
