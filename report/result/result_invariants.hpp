#pragma once
// What holds in every result, whatever was simulated or run.

#include <optional>
#include <string>

#include "report/result/result.hpp"

namespace penstock {

/// What does not, with the figures; nothing where all does: no time or amount is negative, no rank is busy
/// for longer than the makespan (measured: but for a thousandth, since clocks of devices are read), and the
/// idle parts of the total and of the longest span are in [0, 1].
std::optional<std::string> broken_invariant(const Result& result);

}  // namespace penstock
