#pragma once
// Passes for fully sharded stages: when a rank gathers a stage's weights, drops them, and reduces its
// gradients. Both reproduce torch.distributed.pipelining (`_add_unshard_reshard` and `_add_reduce_grad` of
// torch 2.11) action for action. They run before lower(), insert_reduce_grad() also after it.

#include "schedules/ir/program.hpp"

namespace penstock {

/// UNSHARD and RESHARD actions such that before each F, B, I, W or R the next `max_active_stages` different
/// stages that the rank will run are gathered (more where an overlapped group ends the count), and no others.
/// What is no longer among them is dropped first, in ascending order, but behind its last use not before the
/// stage's REDUCE_GRAD, where the list has one; STEP works on the sharded weights, so its stage is gathered
/// anew behind it.
/// With a window of all stages nothing is gathered twice. The result has `sharding` 3. Each rank is walked on
/// its own: a replica without any microbatch of a stage gathers nothing, and validate() refuses such a
/// program because an UNSHARD needs all replicas. Requires max_active_stages >= 1 and a program without
/// UNSHARD and RESHARD.
Program insert_unshard_reshard(const Program& program, int max_active_stages = 3);

/// One REDUCE_GRAD for each stage of a rank and each of its STEPs, right after (the group of) its last B or W
/// before that (before the list's end where there is no STEP) and, in a lowered program, the SENDs behind it.
/// A stage that has a REDUCE_GRAD already keeps its own.
Program insert_reduce_grad(const Program& program);

}  // namespace penstock
