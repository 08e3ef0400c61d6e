// Data parallelism: every stage is on every rank, microbatch m runs on rank m mod R, and each stage is one
// gradient bucket. With 2 ranks, 2 stages and 2 microbatches (a = REDUCE_GRAD, s = STEP):
//
//   rank 0   0F0 1F0 1B0 1a 0B0 0a 1s 0s
//   rank 1   0F1 1F1 1B1 1a 0B1 0a 1s 0s
//
// A bucket is reduced directly after the last backward of its stage, so that the reduction overlaps the rest
// of the backward pass, as in Horovod and DDP. With `reduction: at_end` it is reduced after the whole
// backward pass. The STEPs wait for the reductions.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {
namespace {

/// Returns a rank's list: each microbatch runs forward through all stages and then back. STEPs go from the
/// last stage to the first, because the last stage's gradient is ready first.
std::vector<Action> replica_actions(const Shape& shape, std::int32_t rank, std::int32_t ranks) {
  std::vector<Action> list;
  const bool overlapped = shape.reduction == Reduction::overlapped && shape.replica_sync == ReplicaSync::on;
  const std::int32_t deepest = shape.stages - 1;
  for (std::int32_t m = rank; m < shape.microbatches; m += ranks) {
    const bool last = m + ranks >= shape.microbatches;
    for (std::int32_t stage = 0; stage <= deepest; ++stage) list.push_back(forward(stage, m));
    for (std::int32_t stage = deepest; stage >= 0; --stage) {
      list.push_back(backward(stage, m));
      if (overlapped && last) list.push_back(whole_stage(ActionKind::reduce_grad, stage));
    }
  }
  const bool reduces_at_end =
      shape.replica_sync == ReplicaSync::on &&
      (!overlapped || rank >= shape.microbatches);  // a rank without microbatches also takes part
  for (std::int32_t stage = deepest; reduces_at_end && stage >= 0; --stage) {
    list.push_back(whole_stage(ActionKind::reduce_grad, stage));
  }
  for (std::int32_t stage = deepest; stage >= 0; --stage)
    list.push_back(whole_stage(ActionKind::step, stage));
  return list;
}

}  // namespace

Generated data_parallel(const Shape& shape) {
  const std::int32_t ranks = shape.replicas.empty() ? shape.stages : shape.replicas.front();
  Program program{.schedule = "data-parallel",
                  .microbatches = shape.microbatches,
                  .iterations = shape.iterations,
                  .barrier = shape.barrier};
  StagePlacement everywhere{.ranks = {}, .route = {}};
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    everywhere.ranks.push_back(rank);
    everywhere.route.push_back(rank);
    program.ranks.push_back(replica_actions(shape, rank, ranks));
  }
  program.placement.stages.assign(static_cast<std::size_t>(shape.stages), everywhere);
  return program;
}

}  // namespace penstock
