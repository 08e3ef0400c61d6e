// Computes the costs of the stages and the routes between ranks. The program decides the clones of weights.
// If microbatches differ, each has its own table beside the mean, up to the point where they repeat. Engines
// and searches add up costs in 64 bits, so the largest possible sums are checked here first.

#include "scenarios/prepare/program_prices.hpp"

#include <cstddef>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/range_faults.hpp"
#include "scenarios/prepare/stage_costs.hpp"
#include "scenarios/prepare/stage_cut.hpp"
#include "scenarios/read/cluster_spec.hpp"
#include "schedules/check/weight_versions.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/return_if_error.hpp"
#include "topology/cluster.hpp"

namespace penstock {

// --- cloned versions -------------------------------------------------------------------------------------
//
// The released runtime of PipeDream clones warm-up + 1 versions of a stage's weights at its start. The newest
// of them equals the live weights.

tl::expected<void, std::string> price_cloned_versions(CostTable& costs, const Program& program) {
  const std::vector<StageVersions> versions = weight_versions(program).stages;
  // All microbatches have the same weights, but each table contains them, so all tables are set.
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

// --- program prices --------------------------------------------------------------------------------------

namespace {

/// Returns the costs of the mean microbatch, and the costs of each microbatch if microbatches differ.
tl::expected<CostTable, std::string> cost_table(const PriceTerms& terms, const StageCut& cut,
                                                const Program& program) {
  const auto* figures = std::get_if<StageFigures>(&terms.model);
  const std::size_t period = figures == nullptr ? 0 : figures->microbatch_period(program.microbatches);
  auto costs = stage_costs(terms.model, cut, terms.pricing, program);
  if (!costs || period == 0) return costs;
  // Units are numbered across microbatches. `slices` tells which of them belong to one microbatch.
  costs->slices = program.slices;
  for (std::size_t microbatch = 0; microbatch < period; ++microbatch) {
    auto one = stage_costs(figures->at_microbatch(microbatch), cut, terms.pricing, program);
    if (!one)
      return tl::unexpected(fmt::format("{} (microbatch {} of those listed)", one.error(), microbatch));
    costs->microbatches.push_back({.stages = std::move(one->stages), .edges = std::move(one->edges)});
  }
  return costs;
}

}  // namespace

tl::expected<CostTable, std::string> program_costs(const PriceTerms& terms, const StageCut& cut,
                                                   const Program& program) {
  auto costs = cost_table(terms, cut, program);
  if (!costs) return costs;
  costs->launch = terms.launch;
  if (!terms.clones_versions) return costs;
  PENSTOCK_RETURN_IF_ERROR(price_cloned_versions(*costs, program));
  return costs;
}

tl::expected<ProgramPrices, std::string> program_prices(const PriceTerms& terms, const StageCut& cut,
                                                        const Program& program) {
  PENSTOCK_ASSIGN_OR_RETURN(CostTable costs, program_costs(terms, cut, program));
  PENSTOCK_ASSIGN_OR_RETURN(Cluster cluster, build_cluster(terms.cluster, program.rank_count()));
  if (auto fault = byte_fault(program, costs)) return tl::unexpected(*std::move(fault));
  if (auto fault = time_fault(program, costs, cluster)) return tl::unexpected(*std::move(fault));
  return ProgramPrices{.costs = std::move(costs), .cluster = std::move(cluster)};
}

}  // namespace penstock
