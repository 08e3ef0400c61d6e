#pragma once
// Replicas of single stages: the number of replicas of each stage, the microbatches that each of them runs,
// and the placement of both. The schedules with a flush and 1f1b-rr share them.

#include <cstdint>
#include <string>
#include <vector>

#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

/// A rank that holds one stage. It runs `count` microbatches: first, first + step, first + 2 step, ...
struct StageReplica {
  std::int32_t stage = 0;
  std::int32_t rank = 0;
  std::int32_t first = 0;
  /// The number of replicas of the stage.
  std::int32_t step = 1;
  std::int32_t count = 0;
  /// The number of replicas of this stage and all later stages.
  std::int32_t here_and_later = 1;

  /// Returns the k-th microbatch of the rank. Requires 0 <= k < count, or ignores the result.
  std::int32_t microbatch(std::int32_t k) const {
    return static_cast<std::int32_t>(first + std::int64_t{k} * step);
  }
  /// Returns the number of forwards before the first backward in a 1F1B that keeps all later replicas busy.
  std::int32_t usual_warmup() const { return round_robin_warmup(here_and_later, step); }
};

/// Returns the number of replicas of each stage. The shape states one number for each stage, one number for
/// all stages, or none, which means 1.
std::vector<std::int32_t> replica_counts(const Shape& shape);

/// Returns the replicas of all stages in the order of their ranks: first all replicas of stage 0.
std::vector<StageReplica> stage_replicas(const Shape& shape);

/// Returns a program with an empty list of loops for each replica. Its microbatch m is on replica m mod r of
/// a stage with r replicas.
RolledProgram replicated_program(std::string schedule, const Shape& shape);

/// Appends to each list the reduction of its stage, if the stage has replicas and shape.replica_sync is on,
/// and the STEP of the stage.
void append_updates(RolledProgram& rolled, const Shape& shape);

}  // namespace penstock
