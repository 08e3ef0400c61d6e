#pragma once
// Programs from which ranks, stages, microbatches or actions are removed; the rest is numbered anew. A valid
// program stays valid as far as possible, but programs here need not be valid. Used by counterexample.hpp.

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

/// Returns the excerpt without `stage` and its actions. If the stage has one predecessor and one successor,
/// the predecessor sends directly to the successor, with the larger of the two messages. A rank without
/// stages and actions is removed, too.
Excerpt without_stage(const Excerpt& whole, std::int32_t stage);

/// Returns the excerpt without the stages that `rank` holds, on all ranks.
Excerpt without_stages_of(const Excerpt& whole, std::int32_t rank);

/// Returns the excerpt without `rank`. Stages that only this rank holds are removed. For replicated stages
/// the microbatches that are routed to the rank are removed.
Excerpt without_replicas_of(const Excerpt& whole, std::int32_t rank);

/// Returns the excerpt without `count` microbatches from `first` on, with all their slices. Unless the
/// program updates once a minibatch, a REDUCE_GRAD or STEP that depends only on their backwards is removed,
/// too, and weight versions are counted anew.
Excerpt without_microbatches(const Excerpt& whole, std::int32_t first, std::int32_t count = 1);

/// Returns the excerpt without slice `slice` of every microbatch.
Excerpt without_slice(const Excerpt& whole, std::int32_t slice);

/// Returns the excerpt without one action. The other actions of its overlapped group stay together.
Excerpt without_action(const Excerpt& whole, std::int32_t rank, std::size_t position);

}  // namespace penstock
