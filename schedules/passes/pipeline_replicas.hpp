#pragma once
// A pass that makes several copies of a whole pipeline, which share the microbatches (pipeline x data
// parallelism).

#include <cstdint>

#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

/// The number of copies and how they reduce their gradients.
struct PipelineReplicas {
  /// The number of copies, at least 1.
  std::int32_t count = 1;
  ReplicaSync sync = ReplicaSync::on;
  Reduction reduction = Reduction::overlapped;
};

/// Returns `replicas.count` copies of `pipeline`. Copy i of rank r is rank r * count + i, so that the copies
/// of a stage are adjacent, as in Megatron-LM and DeepSpeed. It runs the microbatches m with m mod count = i.
/// Before each STEP all copies of the stage reduce their gradients. `overlapped` reduces directly after the
/// last B or W before that STEP, `at_end` directly before the consecutive STEPs. A stage that the pipeline
/// already reduces has its own REDUCE_GRADs, now with more members. Requires a compute program without
/// messages, UNSHARD and RESHARD.
Program replicate_pipeline(const Program& pipeline, const PipelineReplicas& replicas);

}  // namespace penstock
