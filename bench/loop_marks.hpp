#pragma once
// The marks by which bench/instructions.sh finds the part of a benchmark that is measured.

namespace penstock {

/// Called right before a benchmark's loop and right after it; they do nothing.
void loop_begins();
void loop_ends();

}  // namespace penstock
