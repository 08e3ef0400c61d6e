#pragma once
// What holds in every result, whatever was simulated or run.

#include <optional>
#include <string>

#include "report/result/result.hpp"

namespace penstock {

/// What does not, as "KEY: expected WHAT, got WHAT" with the keys of the result's document; nothing where all
/// does: no time, amount or rate is negative (a rate that does not exist is NaN), nothing ends after the
/// makespan and no rank is busy for longer (measured: but for a thousandth, since clocks of devices are
/// read), the idle parts of the total and of the longest span are in [0, 1], a predicted MFU is at most 1,
/// and there is an entry a rank.
std::optional<std::string> broken_invariant(const Result& result);

}  // namespace penstock
