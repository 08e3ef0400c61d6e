#pragma once
// Computes the costs of a program's actions and messages on its cluster. Used by experiment.cpp, and by
// compute_program.cpp for schedules whose order depends on costs.

#include <string>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/stage_costs.hpp"
#include "scenarios/prepare/stage_cut.hpp"
#include "scenarios/read/cluster_spec.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "topology/cluster.hpp"

namespace penstock {

// --- cloned versions -------------------------------------------------------------------------------------

/// Sets the bytes of each stage's clones, from its weights and the number of versions that the program needs.
/// Error: more than 2^63 bytes.
tl::expected<void, std::string> price_cloned_versions(CostTable& costs, const Program& program);

// --- program prices --------------------------------------------------------------------------------------

/// The parts of a scenario on which prices depend. The scenario must outlive this object.
struct PriceTerms {
  const Model& model;
  Pricing pricing;
  const ClusterSpec& cluster;
  LaunchCost launch{};
  bool clones_versions = false;  ///< true to clone versions as PipeDream's released runtime does
};

/// Returns the program's costs. Requires the cut of the model for this program. Errors: the errors of
/// stage_costs(), clones of weights that exceed 2^63 bytes.
tl::expected<CostTable, std::string> program_costs(const PriceTerms& terms, const StageCut& cut,
                                                   const Program& program);

struct ProgramPrices {
  CostTable costs;
  Cluster cluster;  ///< device r runs rank r
};

/// Returns the program's costs and its cluster, after checking that times and bytes of a run fit in 64 bits.
/// Errors: the errors of program_costs(), build_cluster(), byte_fault() and time_fault().
tl::expected<ProgramPrices, std::string> program_prices(const PriceTerms& terms, const StageCut& cut,
                                                        const Program& program);

}  // namespace penstock
