// Costs belong to stages, whose clones of weights follow from the program; routes belong to ranks. Engines
// and searches add them up in 64 bits, so that what they can come to is looked at before anybody does.

#include "scenarios/prepare/program_prices.hpp"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/prepare/byte_range.hpp"
#include "scenarios/prepare/stage_costs.hpp"
#include "scenarios/prepare/stage_cut.hpp"
#include "scenarios/prepare/time_range.hpp"
#include "scenarios/read/cluster_spec.hpp"
#include "schedules/check/weight_versions.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

/// PipeDream's released runtime clones warm-up + 1 versions of a stage's weights when it starts, the newest
/// of which equals the live ones.
tl::expected<void, std::string> clone_versions(CostTable& costs, const Program& program) {
  const std::vector<StageVersions> versions = weight_versions(program).stages;
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

}  // namespace

tl::expected<CostTable, std::string> program_costs(const PriceTerms& terms, const StageCut& cut,
                                                   const Program& program) {
  auto costs = cost_table(terms.model, cut, terms.pricing, program);
  if (!costs) return costs;
  costs->launch = terms.launch;
  if (!terms.clones_versions) return costs;
  if (const auto cloned = clone_versions(*costs, program); !cloned) return tl::unexpected(cloned.error());
  return costs;
}

tl::expected<ProgramPrices, std::string> program_prices(const PriceTerms& terms, const StageCut& cut,
                                                        const Program& program) {
  auto costs = program_costs(terms, cut, program);
  if (!costs) return tl::unexpected(costs.error());
  auto cluster = build_cluster(terms.cluster, program.rank_count());
  if (!cluster) return tl::unexpected(cluster.error());
  if (auto fault = byte_fault(program, *costs)) return tl::unexpected(*std::move(fault));
  if (auto fault = time_fault(program, *costs, *cluster)) return tl::unexpected(*std::move(fault));
  return ProgramPrices{.costs = *std::move(costs), .cluster = *std::move(cluster)};
}

}  // namespace penstock
