#pragma once
// Where the ticks of an axis go: at 1, 2 or 5 times a power of ten.

#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {

/// The smallest of 1, 2, 5 x 10^k that is at least `span / most`, so that at most `most` steps fit in
/// `span`. Requires span > 0 and most >= 1.
double nice_step(double span, int most);

/// Multiples of a nice step from 0 to `makespan_ns`, at most `most` of them beside 0; {0} when it is 0.
std::vector<Ns> time_ticks(Ns makespan_ns, int most);

/// Multiples of a nice step from 0 until `highest` is reached; at least {0, 1}.
std::vector<double> value_ticks(double highest, int most);

/// As value_ticks for bytes: nice steps of the binary unit (KiB, MiB, ...) in which `highest` is read.
std::vector<double> byte_ticks(double highest, int most);

}  // namespace penstock
