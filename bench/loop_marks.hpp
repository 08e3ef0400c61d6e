#pragma once
// Marks by which bench/instructions.sh finds the measured part of a benchmark.

namespace penstock {

/// Must be called directly before and after a benchmark's loop. They do nothing.
void loop_begins();
void loop_ends();

}  // namespace penstock
