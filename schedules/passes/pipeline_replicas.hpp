#pragma once
// A pass that makes several copies of a whole pipeline. The copies share the microbatches (pipeline x data
// parallelism).

#include <cstdint>

#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

/// The number of copies, and how they reduce their gradients.
struct PipelineReplicas {
  /// The number of copies, at least 1.
  std::int32_t count = 1;
  ReplicaSync sync = ReplicaSync::on;
  Reduction reduction = Reduction::overlapped;
};

/// Returns `replicas.count` copies of `pipeline`. Copy i of rank r is rank r * count + i, so the copies of a
/// stage are adjacent, as in Megatron-LM and DeepSpeed. Copy i runs the microbatches m with m mod count = i.
/// Before each STEP, all copies of the stage reduce their gradients. `overlapped` puts the reduction directly
/// after the last B or W before this STEP. `at_end` puts it directly before the group of consecutive STEPs.
/// If the pipeline already reduces a stage, its REDUCE_GRADs remain and have more members. Requires a compute
/// program without messages, UNSHARD and RESHARD.
Program replicate_pipeline(const Program& pipeline, const PipelineReplicas& replicas);

}  // namespace penstock
