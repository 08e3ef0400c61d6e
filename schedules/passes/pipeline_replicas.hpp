#pragma once
// Pass: several copies of a whole pipeline side by side, which share the microbatches (pipeline x data
// parallelism).

#include <cstdint>

#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

struct PipelineReplicas {
  std::int32_t count = 1;  ///< >= 1
  ReplicaSync sync = ReplicaSync::on;
  Reduction reduction = Reduction::overlapped;
};

/// `replicas.count` copies of `pipeline`. Copy i of rank r is rank r * count + i, so that the copies of a
/// stage are neighbours, as Megatron-LM and DeepSpeed number them; it runs the microbatches m with m mod
/// count = i. Before each STEP all copies of the stage reduce their gradients: overlapped right behind its
/// last B or W before that STEP, at_end right before the STEPs that follow. A stage that the pipeline itself
/// reduces keeps its own REDUCE_GRADs, now with more members. Requires a compute program without messages,
/// UNSHARD and RESHARD.
Program replicate_pipeline(const Program& pipeline, const PipelineReplicas& replicas);

}  // namespace penstock
