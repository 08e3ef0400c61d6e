// Walks over the list of each rank once, iteration by iteration, and records which microbatches each STEP
// applies. In this list of rank 0
//
// the first STEP applies microbatch 0, and the second one microbatch 1. Each also applies what the other
// ranks of the stage have reduced until then. This code is written separately from the check and the
// executor, because tests compare these with it.

#include "tests/backend/program_facts.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

ProgramFacts facts_of(const Program& program) {
  ProgramFacts facts;
  for (std::int32_t rank = 0; rank < program.rank_count(); ++rank) {
    std::map<std::int32_t, ProgramFacts::Step> open;     // gradients that no REDUCE_GRAD or STEP has used
    std::map<std::int32_t, ProgramFacts::Step> reduced;  // gradients that a REDUCE_GRAD has used and no STEP
    for (std::int32_t iteration = 0; iteration < program.iterations; ++iteration) {
      std::map<std::int32_t, std::int32_t> before;  // by stage: the number of STEPs before this iteration
      for (const auto& [key, steps] : facts.steps) {
        if (key.second == rank) before[key.first] = static_cast<std::int32_t>(steps.size());
      }
      for (const Action& action : program.ranks[index(rank)]) {
        const std::int32_t stage = action.stage;
        const std::int32_t m = action.microbatch + iteration * program.unit_count();
        const std::int32_t version = action.weight_version + before[stage];
        if (action.kind == ActionKind::forward) {
          facts.rank[{stage, m}] = rank;
          facts.forward_version[{stage, m}] = version;
        }
        if (action.kind == ActionKind::backward || action.kind == ActionKind::backward_input) {
          facts.backward_version[{stage, m}] = version;
        }
        if (action.kind == ActionKind::backward || action.kind == ActionKind::backward_weight) {
          open[stage].microbatches.push_back(m);
        }
        if (action.kind == ActionKind::reduce_grad) {
          auto& taken = reduced[stage];
          taken.reduced = true;
          for (const std::int32_t taken_m : open[stage].microbatches) taken.microbatches.push_back(taken_m);
          open.erase(stage);
        }
        if (action.kind == ActionKind::step) {
          auto& source = reduced.contains(stage) ? reduced : open;
          facts.steps[{stage, rank}].push_back(std::exchange(source[stage], {}));
          source.erase(stage);
        }
      }
    }
  }
  return facts;
}

}  // namespace penstock
