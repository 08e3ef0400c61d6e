#pragma once
// Replicas of single stages: their numbers, their placement, and the microbatches that each replica runs.
// Schedules with a flush and 1f1b-rr use these functions. passes/replicas.cpp makes copies of the whole
// pipeline instead.

#include <cstdint>
#include <string>
#include <vector>

#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

/// A rank that holds one replica of a stage. It runs `count` microbatches: first, first + step, first + 2
/// step, ...
struct StageReplica {
  std::int32_t stage = 0;
  std::int32_t rank = 0;
  std::int32_t first = 0;
  /// The number of replicas of the stage, which is the distance between consecutive microbatches of this
  /// rank.
  std::int32_t step = 1;
  std::int32_t count = 0;
  /// The number of replicas of this stage and all later stages.
  std::int32_t here_and_later = 1;

  /// Returns the k-th microbatch of the rank. The result is meaningful only for 0 <= k < count.
  std::int32_t microbatch(std::int32_t k) const {
    return static_cast<std::int32_t>(first + std::int64_t{k} * step);
  }
  /// Returns the number of forward passes before the first backward pass in 1F1B. With this number, all
  /// later replicas stay busy.
  std::int32_t usual_warmup() const { return round_robin_warmup(here_and_later, step); }
};

/// Returns the number of replicas of each stage. The shape states one number for each stage, one number for
/// all stages, or none, which means 1.
std::vector<std::int32_t> replica_counts(const Shape& shape);

/// Returns the replicas of all stages in the order of their ranks: first all replicas of stage 0.
std::vector<StageReplica> stage_replicas(const Shape& shape);

/// Returns a program with one rank for each replica, and with an empty list of loops for each rank. A stage
/// with r replicas runs microbatch m on its replica m mod r.
RolledProgram replicated_program(std::string schedule, const Shape& shape);

/// Appends the STEP of its stage to each list. If the stage has replicas and shape.replica_sync is on,
/// appends the reduction of the stage before the STEP.
void append_updates(RolledProgram& rolled, const Shape& shape);

}  // namespace penstock
