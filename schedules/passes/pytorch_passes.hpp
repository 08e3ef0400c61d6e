#pragma once
// Passes of torch.distributed.pipelining: gathers and reductions of fully sharded stages, and the merge of I
// and W into B. The first two reproduce `_add_unshard_reshard` and `_add_reduce_grad` of torch 2.11 action
// for action. They run before lower(); insert_reduce_grad() may also run after it. sharding.hpp has
// Penstock's own placement.

#include <cstdint>
#include <vector>

#include "schedules/ir/program.hpp"

namespace penstock {

/// The options of insert_unshard_reshard(), which say when a rank gathers the weights of a stage.
struct UnshardOptions {
  /// The number of different stages whose gathered weights a rank stores at once, at least 1.
  std::int32_t max_active_stages = 3;
  /// The number of different stages that each rank gathers ahead, counted from its next action (torch's
  /// unshard_lookahead). Each number is from 1 to max_active_stages. Empty means max_active_stages for all
  /// ranks ("full").
  std::vector<std::int32_t> lookahead{};
};

/// Returns the lookahead that torch calls "auto": r + 2 for rank r, and at most max_active_stages. The later
/// a rank is, the longer it waits for its first activation, so that more gathers can overlap.
std::vector<std::int32_t> automatic_lookahead(std::int32_t ranks, std::int32_t max_active_stages);

/// Inserts UNSHARD and RESHARD. Before each F, B, I, W or R, exactly the next `max_active_stages` different
/// stages in the rank's list are gathered. If an overlapped group crosses this limit, more stages are
/// gathered. All other gathered stages are dropped first, in ascending order. After its last use, a stage is
/// dropped only after its REDUCE_GRAD, if the list has one. STEP updates the sharded weights, so its stage is
/// gathered again. If the limit covers all stages, no stage is gathered twice. A shorter lookahead only moves
/// UNSHARDs closer to the action that needs them.
///
/// The result has `sharding` 3. Each rank is processed separately. A replica without any microbatch of a
/// stage gathers nothing. validate() rejects such a program, because an UNSHARD needs all replicas. Requires
/// max_active_stages >= 1, a lookahead for each rank or none, and a program without UNSHARD and RESHARD.
Program insert_unshard_reshard(const Program& program, const UnshardOptions& options = {});

/// Inserts a REDUCE_GRAD for each stage and each of its STEPs in a rank's list. It comes directly after the
/// last B or W of the stage before this STEP. In a list without STEP, it comes after the last B or W of the
/// stage. In a lowered program, it comes after the SENDs that follow this B or W. A stage that already has
/// a REDUCE_GRAD stays unchanged.
Program insert_reduce_grad(const Program& program);

// A pass that merges each I with the W directly after it into a B:
//
//   0F0 0I0 0W0 0I1 1F0 0W1   ->   0F0 0B0 0I1 1F0 0W1
//
// Schedules with split backwards list I and W for every microbatch. If the W comes directly after the I, one
// B has less overhead and releases all memory at once.

/// Replaces each I (gradient of the input) and the W (gradient of the weights) directly after it by one B.
/// Both must have the same stage, microbatch and weight version, and must be outside overlapped groups.
/// PyTorch calls this `merge_bw`. Requires a compute program, so the pass must run before lower().
Program merge_backward(const Program& program);

}  // namespace penstock
