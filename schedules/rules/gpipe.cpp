// Schedules in which a rank does not alternate between forwards and backwards: naive, gpipe, looped-bfs and
// data-parallel. one_f_one_b.cpp has the schedules that alternate. Tested by picture_test.cpp and
// conformance_test.cpp.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/rules/stage_replicas.hpp"

namespace penstock {

// Naive model parallelism: one microbatch at a time goes down the stages and back, so one rank works while
// all other ranks wait. With 3 stages and 2 microbatches:
//
//   rank 0   F0             B0 F1             B1
//   rank 1      F0       B0       F1       B1
//   rank 2         F0 B0             F1 B1
//
// The optimizer updates the weights once at the end, with accumulated gradients. With `update: microbatch` it
// updates them after every microbatch, which is sequential SGD (PipeDream, SOSP'19, Figure 2).

GeneratedLoops naive_loops(const Shape& shape) {
  RolledProgram rolled = with_empty_loops(looped_program("naive", shape));
  rolled.program.update = shape.update;
  const bool step_each = shape.update == UpdateRule::microbatch;
  const std::int32_t next = step_each ? 1 : 0;
  for (std::int32_t stage = 0; stage < shape.stages; ++stage) {
    std::vector<PatternAction> pattern = {{.action = forward(stage, 0), .version_step = next},
                                          {.action = backward(stage, 0), .version_step = next}};
    if (step_each) pattern.push_back({.action = whole_stage(ActionKind::step, stage)});
    rolled.lists[index(stage)].repeat(std::move(pattern), shape.microbatches);
  }
  if (!step_each) append_steps(rolled);
  return rolled;
}

Generated naive(const Shape& shape) {
  return naive_loops(shape).map([&](RolledProgram rolled) { return spelled_out(std::move(rolled), shape); });
}

// GPipe fill-drain (Huang et al., NeurIPS'19, section 2.3): all forwards run first, then all backwards, then
// the update. With 3 stages and 4 microbatches, and backwards first-in-first-out:
//
//   rank 0   F0 F1 F2 F3             B0 B1 B2 B3
//   rank 1      F0 F1 F2 F3       B0 B1 B2 B3
//   rank 2         F0 F1 F2 F3 B0 B1 B2 B3
//
// With last-in-first-out, the backwards are B3 B2 B1 B0 and take the same time, as in torchgpipe. With
// re-materialisation an R comes before each B. An early R runs while the gradient is still in transfer.
// stage_replicas.cpp says what `replicas` changes.

GeneratedLoops gpipe_loops(const Shape& shape) {
  RolledProgram rolled = replicated_program("gpipe", shape);
  const bool oldest_first = shape.backward_order == BackwardOrder::fifo;
  for (const StageReplica& replica : stage_replicas(shape)) {
    ActionLoops& list = rolled.lists[index(replica.rank)];
    list.repeat({forward(replica.stage, replica.first)}, replica.count, replica.step);
    if (oldest_first) {
      list.repeat({backward(replica.stage, replica.first)}, replica.count, replica.step);
    } else {
      list.repeat({backward(replica.stage, replica.microbatch(replica.count - 1))}, replica.count,
                  -replica.step);
    }
  }
  append_updates(rolled, shape);
  return rolled;
}

Generated gpipe(const Shape& shape) {
  return gpipe_loops(shape).map([&](RolledProgram rolled) { return spelled_out(std::move(rolled), shape); });
}

// Looped breadth-first (Lamy-Poirier, "Breadth-First Pipeline Parallelism", arXiv 2211.05953; PyTorch's
// ScheduleLoopedBFS): all microbatches go forward through a chunk before the next chunk begins. Then all
// microbatches go backward, newest first. With 2 ranks, v = 2 (stages 0 and 2 on rank 0) and 2 microbatches:
//
//   rank 0   0F0 0F1 2F0 2F1         2B1 2B0 0B1 0B0
//   rank 1       1F0 1F1 3F0 3F1 3B1 3B0 1B1 1B0
//
// The weights of each stage are gathered and its gradients reduced once in a pass. This is the purpose of the
// schedule, because sharded weights then cause the least traffic. A rank stores all M * v activations.

Generated looped_bfs(const Shape& shape) {
  Program program = looped_program("looped-bfs", shape);
  for (std::int32_t rank = 0; rank < shape.stages; ++rank) {
    auto& list = program.ranks[static_cast<std::size_t>(rank)];
    for (std::int32_t chunk = 0; chunk < shape.virtual_stages; ++chunk) {
      const std::int32_t stage = chunk * shape.stages + rank;
      for (std::int32_t m = 0; m < shape.microbatches; ++m) list.push_back(forward(stage, m));
    }
    for (std::int32_t chunk = shape.virtual_stages - 1; chunk >= 0; --chunk) {
      const std::int32_t stage = chunk * shape.stages + rank;
      for (std::int32_t m = shape.microbatches - 1; m >= 0; --m) list.push_back(backward(stage, m));
    }
  }
  append_steps(program);
  insert_recompute(program, shape);
  return program;
}

// Data parallelism: every stage is on every rank, microbatch m runs on rank m mod R, and each stage is one
// gradient bucket. With 2 ranks, 2 stages and 2 microbatches (a = REDUCE_GRAD, s = STEP):
//
//   rank 0   0F0 1F0 1B0 1a 0B0 0a 1s 0s
//   rank 1   0F1 1F1 1B1 1a 0B1 0a 1s 0s
//
// A bucket is reduced directly after the last backward of its stage, so that the reduction overlaps the rest
// of the backward pass, as in Horovod and DDP. With `reduction: at_end` it is reduced after the whole
// backward pass. The STEPs wait for the reductions.

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
