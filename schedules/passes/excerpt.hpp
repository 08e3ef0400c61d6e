#pragma once
// Programs with ranks, stages, microbatches or actions taken away, numbered anew. What is left of a sound
// program is sound wherever that is possible; the programs need not be valid. For counterexample.hpp.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// A program and the costs of its stages and edges.
struct Excerpt {
  Program program;
  CostTable costs;
};

/// Without `stage` and all that is done for it. Of a stage between two others the messages are tied together:
/// its predecessor sends to its successor, the larger message of the two. A rank that has no stage left and
/// no actions goes, too.
Excerpt without_stage(const Excerpt& whole, std::int32_t stage);

/// Without the stages that `rank` holds, on all ranks.
Excerpt without_stages_of(const Excerpt& whole, std::int32_t rank);

/// Without `rank`: of stages that it alone holds nothing is left; of replicated stages it takes along the
/// microbatches that were routed to it.
Excerpt without_replicas_of(const Excerpt& whole, std::int32_t rank);

/// Without `count` microbatches from `first` on, in all their slices. A REDUCE_GRAD or STEP that only their
/// backwards led to goes as well, unless the program updates once a minibatch, and versions are counted anew.
Excerpt without_microbatches(const Excerpt& whole, std::int32_t first, std::int32_t count = 1);

/// Without slice `slice` of every microbatch.
Excerpt without_slice(const Excerpt& whole, std::int32_t slice);

/// Without one action; the group that it belongs to stays together.
Excerpt without_action(const Excerpt& whole, std::int32_t rank, std::size_t position);

}  // namespace penstock
