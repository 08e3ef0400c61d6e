#pragma once
// Pass: an I that its W follows at once is a B.

#include "schedules/ir/program.hpp"

namespace penstock {

/// Replaces each I and W of one stage and microbatch that stand next to each other, outside overlapped
/// groups, by B (`merge_bw` in torch.distributed.pipelining). Meant for compute programs: run it before
/// lower().
Program merge_backward(const Program& program);

}  // namespace penstock
