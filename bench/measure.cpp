// Marks the measured loop of a benchmark. Callgrind can reset its counts when a function is entered and write
// them when another one is. Two empty functions around the loop therefore exclude what a benchmark prepares
// and compares outside of it.

#include "bench/measure.hpp"

namespace penstock {

// An empty assembler statement keeps the compiler from removing the call.
[[gnu::noinline]] void loop_begins() { __asm__ volatile(""); }
[[gnu::noinline]] void loop_ends() { __asm__ volatile(""); }

}  // namespace penstock
