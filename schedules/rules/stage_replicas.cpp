// Lets stages have different numbers of replicas in schedules that end each minibatch with a flush
// (DAPPLE, arXiv 2007.01045). A stage that takes longer is on several ranks, and microbatch m runs on
// replica m mod r of a stage with r replicas. The replicas of a stage reduce their gradients once, after
// the last backward of the minibatch. gpipe, 1f1b and zb-h1 accept `replicas`. 1F1B with 2 stages,
// replicas [2, 1] and 4 microbatches (ranks 0 and 1 hold stage 0):
//
//   rank 0   F0 F2    B0          B2
//   rank 1   F1 F3          B1          B3
//   rank 2      F0 B0 F1 B1 F2 B2 F3 B3
//
// The warm-up is that of 1f1b-rr: floor((N - 1) / r) forwards, where N counts the replicas of this stage and
// all later stages. With one replica of each stage this is K - 1 - s, as in plain 1F1B. The number r need not
// divide M, because the reduction adds up what each replica has. A replica without a microbatch takes part in
// the reduction. Tested by stage_replicas_test.cpp and picture_test.cpp.

#include "schedules/rules/stage_replicas.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

std::vector<std::int32_t> replica_counts(const Shape& shape) {
  if (shape.replicas.size() == index(shape.stages)) return shape.replicas;
  return std::vector<std::int32_t>(index(shape.stages), shape.replicas.empty() ? 1 : shape.replicas.front());
}

std::vector<StageReplica> stage_replicas(const Shape& shape) {
  const std::vector<std::int32_t> counts = replica_counts(shape);
  std::int32_t here_and_later = std::accumulate(counts.begin(), counts.end(), 0);
  std::vector<StageReplica> replicas;
  replicas.reserve(index(here_and_later));
  for (std::int32_t stage = 0; stage < shape.stages; ++stage) {
    const std::int32_t count = counts[index(stage)];
    for (std::int32_t i = 0; i < count; ++i) {
      const std::int32_t behind_first = std::max(0, shape.microbatches - i);
      replicas.push_back({.stage = stage,
                          .rank = static_cast<std::int32_t>(replicas.size()),
                          .first = i,
                          .step = count,
                          .count = behind_first / count + (behind_first % count > 0 ? 1 : 0),
                          .here_and_later = here_and_later});
    }
    here_and_later -= count;
  }
  return replicas;
}

RolledProgram replicated_program(std::string schedule, const Shape& shape) {
  Program program = looped_program(std::move(schedule), shape);
  const std::vector<std::int32_t> counts = replica_counts(shape);
  std::int32_t rank = 0;
  for (std::int32_t stage = 0; stage < shape.stages; ++stage) {
    const std::int32_t count = counts[index(stage)];
    // Microbatch numbers continue from one iteration to the next, but each iteration begins with replica 0
    // again. The route must therefore end with an iteration.
    const std::int32_t period = shape.microbatches % count == 0 ? count : shape.microbatches;
    StagePlacement& placement = program.placement.stages[index(stage)];
    placement.ranks.resize(index(count));
    std::ranges::generate(placement.ranks, [&] { return rank++; });
    placement.route.clear();
    for (std::int32_t m = 0; m < period; ++m) placement.route.push_back(m % count);
  }
  program.ranks.resize(index(rank));
  return with_empty_loops(std::move(program));
}

void append_updates(RolledProgram& rolled, const Shape& shape) {
  if (shape.replica_sync == ReplicaSync::on) {
    for (const StageReplica& replica : stage_replicas(shape)) {
      if (replica.step > 1)
        rolled.lists[index(replica.rank)].append(whole_stage(ActionKind::reduce_grad, replica.stage));
    }
  }
  append_steps(rolled);
}

}  // namespace penstock
