#pragma once
// The positions of the ticks of an axis: at 1, 2 or 5 times a power of ten.

#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {

/// Returns the smallest of 1, 2, 5 x 10^k that is at least `span / most`. At most `most` such steps fit into
/// `span`. Requires span > 0 and most >= 1.
double nice_step(double span, int most);

/// Returns multiples of a nice step from 0 to `makespan_ns`: at most `most` besides 0, and {0} if the
/// makespan is 0.
std::vector<Ns> time_ticks(Ns makespan_ns, int most);

/// Returns multiples of a nice step from 0 to the first that reaches `highest`; at least {0, 1}.
std::vector<double> value_ticks(double highest, int most);

/// Returns the same as value_ticks() for bytes: the step is nice in the binary unit (KiB, MiB, ...) in which
/// `highest` is shown.
std::vector<double> byte_ticks(double highest, int most);

}  // namespace penstock
