#pragma once
// Gradient buckets: a stage in several parts, so that the gradients of one are reduced while the backward
// pass of the others runs. Two ranks share stage 0, which has three buckets (a = REDUCE_GRAD, s = STEP):
//
//   0F 0B 0a 0s   ->   0F 1F 2F  2B 2a 1B 1a 0B 0a  2s 1s 0s

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

/// The number of buckets of each stage, and when they are reduced.
struct BucketOptions {
  /// The buckets of each stage, at least 1; one number a stage, or one for all stages.
  std::vector<std::int32_t> counts;
  Reduction reduction = Reduction::overlapped;
};

/// Returns the compute program with its stages cut into buckets, as in DistributedDataParallel (Li et al.,
/// VLDB'20, section 3.2). Stage s becomes counts[s] consecutive stages on the same ranks; all stages are
/// numbered anew. F goes through the buckets in order, B, I and W in reverse order. With overlapped
/// reductions a REDUCE_GRAD directly after its stage's backward becomes one REDUCE_GRAD after the backward of
/// each bucket. Every other action is repeated for each bucket. Errors: a wrong number of counts, overlapped
/// pairs, recomputation (each bucket would need its own input), gathered stages (shard after this).
tl::expected<Program, std::string> split_into_buckets(const Program& program, const BucketOptions& options);

}  // namespace penstock
