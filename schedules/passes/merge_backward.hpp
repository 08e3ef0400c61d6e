#pragma once
// A pass that merges each I with the W directly after it into a B:
//
//   0F0 0I0 0W0 0I1 1F0 0W1   ->   0F0 0B0 0I1 1F0 0W1
//
// Schedules with split backwards list I and W for every microbatch. If no action is between the two, a B has
// less overhead and releases all memory at once.

#include "schedules/ir/program.hpp"

namespace penstock {

/// Replaces an I and the W directly after it by a B. Both must have the same stage, microbatch and weight
/// version, and must be outside overlapped groups. PyTorch calls this `merge_bw`. The pass is for compute
/// programs, so it must run before lower().
Program merge_backward(const Program& program);

}  // namespace penstock
