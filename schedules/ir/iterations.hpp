#pragma once
// Converts an action in a program's list to the same action in a later iteration. Iterations repeat the
// lists. Microbatch numbers and weight versions continue over iterations, so all actions of a run are
// different.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// Returns the number of STEPs for each stage in the rank's list. Requires a rank of the program.
std::vector<std::int32_t> steps_per_pass(const Program& program, std::int32_t rank);

/// Returns the number of microbatches, over all replicas, in one update of the weights. Usually this is M.
/// With double-buffered updates (PipeDream-2BW), it is the number of microbatches between two STEPs. It is 1
/// if each microbatch has its own update.
std::int32_t microbatches_of_minibatch(const Program& program);

/// Returns a listed action as it appears in iteration number `iteration`, from 0. Its microbatch increases by
/// iteration x `units`. The weight version of a compute action increases by iteration x `steps` of its stage.
/// `steps` is steps_per_pass() of the action's rank, and `units` is the program's unit_count().
inline Action of_iteration(Action action, std::int32_t iteration, std::int32_t units,
                           const std::vector<std::int32_t>& steps) {
  if (iteration == 0 || action.microbatch == kNoMicrobatch) return action;
  action.microbatch += iteration * units;
  if (is_compute(action.kind)) {
    action.weight_version += iteration * steps[static_cast<std::size_t>(action.stage)];
  }
  return action;
}

}  // namespace penstock
