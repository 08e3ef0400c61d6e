#pragma once
// Computes the tick positions of an axis. The distance of ticks is 1, 2 or 5 times a power of ten (a "nice"
// step).

#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {

/// Returns the smallest step of the form 1, 2 or 5 x 10^k that is at least `span / most`. Requires span > 0
/// and most >= 1.
double nice_step(double span, int most);

/// Returns the ticks of a time axis: multiples of a nice step from 0 to `makespan_ns`. There are at most
/// `most` ticks above 0. If the makespan is 0, the result is {0}.
std::vector<Ns> time_ticks(Ns makespan_ns, int most);

/// Returns multiples of a nice step. The first is 0, and the last is the first multiple that reaches
/// `highest`. If `highest` is not a positive number, the result is {0, 1}.
std::vector<double> value_ticks(double highest, int most);

/// Returns ticks like value_ticks(), but for bytes. The step is nice in the binary unit (KiB, MiB, ...) in
/// which `highest` is shown.
std::vector<double> byte_ticks(double highest, int most);

}  // namespace penstock
