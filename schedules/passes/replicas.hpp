#pragma once
// Adds data parallelism to a pipeline's program. One pass makes copies of the whole pipeline. Another pass
// cuts stages into buckets whose gradients are reduced one by one. sharding.hpp is used instead if the
// replicas also divide weights, gradients or optimizer state.

#include <cstdint>
#include <string>
#include <vector>

#include <tl/expected.hpp>

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
/// If the pipeline already reduces a stage, its REDUCE_GRADs remain and get the copies as further members.
/// Requires a compute program without messages, UNSHARD and RESHARD.
Program replicate_pipeline(const Program& pipeline, const PipelineReplicas& replicas);

// Cuts a stage into gradient buckets. The gradients of one bucket are reduced while the backward pass of the
// next bucket runs. In this example, two ranks share stage 0, which has three buckets (a = REDUCE_GRAD, s =
// STEP):
//
//   0F 0B 0a 0s   ->   0F 1F 2F  2B 2a 1B 1a 0B 0a  2s 1s 0s

/// The number of buckets of each stage, and the time of their reductions.
struct BucketOptions {
  /// The number of buckets of each stage, at least 1. There is one number for each stage, or one for all
  /// stages.
  std::vector<std::int32_t> counts;
  Reduction reduction = Reduction::overlapped;
};

/// Returns the compute program with its stages cut into buckets, as in DistributedDataParallel (Li et al.,
/// VLDB'20, section 3.2). Stage s becomes counts[s] consecutive stages on the same ranks, and all stages get
/// new numbers. F goes through the buckets in order, and B, I and W go through them in reverse order. A
/// REDUCE_GRAD directly after a backward is overlapped: it becomes one REDUCE_GRAD after the backward of each
/// bucket. Every other action is repeated for each bucket.
///
/// Fails if the number of counts is wrong. Also fails if the program has overlapped pairs or recomputation,
/// because each bucket would need its own input. The program must not have gathers, because sharding comes
/// after this pass.
tl::expected<Program, std::string> split_into_buckets(const Program& program, const BucketOptions& options);

}  // namespace penstock
