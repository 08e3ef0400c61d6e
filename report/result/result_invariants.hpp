#pragma once
// Invariants that hold in every simulated and every measured result.

#include <optional>
#include <string>

#include "report/result/result.hpp"

namespace penstock {

/// Returns the first invariant that does not hold, as "KEY: expected WHAT, got WHAT" with keys of the
/// result's document; nothing if all hold. No time, amount or rate is negative; a rate that does not exist is
/// NaN. Nothing ends after the makespan, and no rank is busy for longer; a measurement may exceed it by a
/// thousandth, because its clocks differ. The bubbles idle_over_total and longest_span_rate are in [0, 1]. A
/// predicted MFU is at most 1. There is an entry for each rank.
std::optional<std::string> broken_invariant(const Result& result);

}  // namespace penstock
