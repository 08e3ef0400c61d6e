#pragma once
// A pass that merges an I and a W that directly follows it:
//
//   0F0 0I0 0W0 0I1 1F0 0W1   ->   0F0 0B0 0I1 1F0 0W1
//
// Schedules that split the backward list halves throughout. If nothing is between two halves, one B has less
// overhead and releases all memory at once.

#include "schedules/ir/program.hpp"

namespace penstock {

/// Replaces each I that its W of the same stage, microbatch and weight version directly follows by a B,
/// outside overlapped groups. PyTorch calls this `merge_bw`. It is meant for compute programs, so run it
/// before lower().
Program merge_backward(const Program& program);

}  // namespace penstock
