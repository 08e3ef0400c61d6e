#pragma once
// A program lists one pass, and iterations repeat it. Microbatch numbers and weight versions run on over
// iterations, so that no two actions of a run are equal.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// Returns for each stage the number of STEPs in one pass through the rank's list. Requires a rank of the
/// program.
std::vector<std::int32_t> steps_per_pass(const Program& program, std::int32_t rank);

/// Returns how many microbatches, over all replicas, one update of the weights covers. That is M if a pass is
/// one minibatch, and the microbatches between two STEPs for a stream (PipeDream-2BW). It is 1 if each
/// microbatch has its own update.
std::int32_t microbatches_of_minibatch(const Program& program);

/// Returns a listed action as it appears in `iteration` (from 0). Its microbatch is raised by iteration x
/// `units`. The weight version of a compute action is raised by iteration x `steps` of its stage. `steps` are
/// steps_per_pass() of its rank, and `units` is the program's unit_count().
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
