// Marks the measured loop of a benchmark. Callgrind can reset its counts at the call of one function and
// write them at the call of another. With two empty functions around the loop, the work of a benchmark
// outside the loop is not counted.

#include "bench/measure.hpp"

namespace penstock {

// Because of the empty assembler statement, the compiler cannot remove the call.
[[gnu::noinline]] void loop_begins() { __asm__ volatile(""); }
[[gnu::noinline]] void loop_ends() { __asm__ volatile(""); }

}  // namespace penstock
