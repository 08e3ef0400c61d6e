#pragma once
// The lists of a program say one pass; numbers and weight versions run on over its iterations.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// By stage: the STEPs in one pass through the rank's list. Requires a rank of the program.
std::vector<std::int32_t> steps_per_pass(const Program& program, std::int32_t rank);

/// The microbatches, over all replicas, whose gradients one update of the weights adds up: M where a pass is
/// a minibatch, the part of a stream between two STEPs (PipeDream-2BW), and 1 where each has an update of its
/// own.
std::int32_t microbatches_of_minibatch(const Program& program);

/// A listed action as it is met in `iteration` (from 0): its microbatch and, of compute actions, its weight
/// version are later ones. `steps` are steps_per_pass() of its rank, `units` the program's unit_count().
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
