#pragma once
// Passes for fully sharded stages: they insert when a rank gathers a stage's weights, drops them, and reduces
// its gradients. Both reproduce torch.distributed.pipelining (`_add_unshard_reshard` and `_add_reduce_grad`
// of torch 2.11) action for action. They run before lower(); insert_reduce_grad() may also run after it.

#include "schedules/ir/program.hpp"

namespace penstock {

/// Inserts UNSHARD and RESHARD. Before each F, B, I, W or R exactly the next `max_active_stages` different
/// stages that the rank will run are gathered (more if an overlapped group crosses this limit). Stages that
/// are no longer among them are dropped first, in ascending order. After its last use a stage is not dropped
/// before its REDUCE_GRAD, if the list has one. STEP updates the sharded weights, so its stage is gathered
/// again after it. With a window of all stages nothing is gathered twice.
///
/// The result has `sharding` 3. Each rank is processed separately. A replica without any microbatch of a
/// stage gathers nothing; validate() refuses such a program, because an UNSHARD needs all replicas. Requires
/// max_active_stages >= 1 and a program without UNSHARD and RESHARD.
Program insert_unshard_reshard(const Program& program, int max_active_stages = 3);

/// Inserts one REDUCE_GRAD for each stage of a rank and each of its STEPs. It comes directly after the
/// stage's last B or W before that STEP, or before the end of a list without STEP. In a lowered program it
/// comes after the SENDs that follow. A stage that already has a REDUCE_GRAD is left as it is.
Program insert_reduce_grad(const Program& program);

}  // namespace penstock
