// PipeDream's released runtime clones warm-up + 1 versions of a stage's weights when it starts,
// the newest of which equals the live ones.

#include "scenarios/prepare/cloned_versions.hpp"

#include <cstddef>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/check/weight_versions.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

tl::expected<void, std::string> price_cloned_versions(CostTable& costs, const Program& program) {
  const std::vector<StageVersions> versions = weight_versions(program).stages;
  // Weights do not differ from microbatch to microbatch, but each table says them again.
  std::vector<std::vector<StageCost>*> tables = {&costs.stages};
  for (MicrobatchCost& microbatch : costs.microbatches) tables.push_back(&microbatch.stages);
  for (std::vector<StageCost>* stages : tables) {
    for (std::size_t stage = 0; stage < stages->size(); ++stage) {
      StageCost& cost = (*stages)[stage];
      if (!__builtin_mul_overflow(cost.weights, Bytes{versions[stage].kept}, &cost.cloned_weights)) continue;
      return tl::unexpected(
          fmt::format("training.weight_versions: {} clones of stage {}'s weights are more than 2^63 bytes",
                      versions[stage].kept, stage));
    }
  }
  return {};
}

}  // namespace penstock
