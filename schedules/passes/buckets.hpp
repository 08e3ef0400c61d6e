#pragma once
// Gradient buckets: a stage in several parts, so that the gradients of one are reduced while the backward
// pass goes on in the others.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

/// Into what stages are cut, and when their buckets are reduced.
struct BucketOptions {
  std::vector<std::int32_t> counts;  ///< >= 1 each; one for each stage, or one for all
  Reduction reduction = Reduction::overlapped;
};

/// The compute program with its stages in buckets, as DistributedDataParallel has them (Li et al., VLDB'20,
/// section 3.2): stage s becomes counts[s] stages in a row on the same ranks, which are numbered through. F
/// runs through them, B, I and W back; where reductions overlap, a REDUCE_GRAD that follows its stage's
/// backward at once becomes one behind the backward of each bucket. Everything else of a stage becomes the
/// same of each bucket. Errors: another number of counts, overlapped pairs, recomputation (each bucket would
/// keep an input of its own), gathered stages (shard after this).
tl::expected<Program, std::string> split_into_buckets(const Program& program, const BucketOptions& options);

}  // namespace penstock
