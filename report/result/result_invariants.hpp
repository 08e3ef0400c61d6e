#pragma once
// Checks invariants that every simulated and every measured result must satisfy.

#include <optional>
#include <string>

#include "report/result/result.hpp"

namespace penstock {

/// Returns the first broken invariant as "KEY: expected WHAT, got WHAT", or nothing if all invariants hold.
/// The keys are those of the JSON document. For example, no time, amount or rate is negative, no action ends
/// after the makespan, and bubbles are in [0, 1]. Measured times may exceed the makespan by a thousandth,
/// because clocks differ.
std::optional<std::string> broken_invariant(const Result& result);

}  // namespace penstock
