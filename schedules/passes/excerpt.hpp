#pragma once
// Removes ranks, stages, microbatches or actions from a program, and renumbers the remaining parts. The
// program may be invalid. If it is valid, the result is usually also valid. counterexample.hpp uses this
// file.

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

/// Returns the excerpt without `stage` and its actions. If the stage has exactly one predecessor and one
/// successor, the predecessor then sends directly to the successor. The size of this message is the larger
/// of the two removed messages. A rank that has no stages and actions left is also removed.
Excerpt without_stage(const Excerpt& whole, std::int32_t stage);

/// Returns the excerpt without the stages that `rank` holds. These stages are also removed from all other
/// ranks.
Excerpt without_stages_of(const Excerpt& whole, std::int32_t rank);

/// Returns the excerpt without `rank`. A stage that only this rank holds is removed. If other ranks also hold
/// a stage, the microbatches that `rank` runs on it are removed from the program.
Excerpt without_replicas_of(const Excerpt& whole, std::int32_t rank);

/// Returns the excerpt without `count` microbatches from `first` on, with all their slices. If the program
/// updates the weights once in each minibatch, nothing else is removed. Otherwise, a REDUCE_GRAD or STEP
/// that depends only on removed backward passes is removed, too. The weight versions are then numbered
/// anew.
Excerpt without_microbatches(const Excerpt& whole, std::int32_t first, std::int32_t count = 1);

/// Returns the excerpt without slice `slice` of every microbatch.
Excerpt without_slice(const Excerpt& whole, std::int32_t slice);

/// Returns the excerpt without one action. The other actions of its overlapped group remain a group.
Excerpt without_action(const Excerpt& whole, std::int32_t rank, std::size_t position);

}  // namespace penstock
