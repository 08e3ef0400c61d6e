#pragma once
// What a program's actions and messages cost on its cluster. Used by experiment.cpp, and by
// compute_program.cpp for schedules that weigh costs.

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

/// Sets the bytes of each stage's clones, from its weights and the versions that the program keeps of them.
/// Error: more than 2^63 bytes.
tl::expected<void, std::string> price_cloned_versions(CostTable& costs, const Program& program);

// --- program prices --------------------------------------------------------------------------------------

/// What prices follow from; parts of a scenario, which must outlive them.
struct PriceTerms {
  const Model& model;
  Pricing pricing;
  const ClusterSpec& cluster;
  LaunchCost launch{};
  bool clones_versions = false;  ///< as PipeDream's released runtime does
};

/// The program's costs. Requires a cut of the model, for the program. Errors: those of stage_costs(); clones
/// of weights beyond 2^63 bytes.
tl::expected<CostTable, std::string> program_costs(const PriceTerms& terms, const StageCut& cut,
                                                   const Program& program);

struct ProgramPrices {
  CostTable costs;
  Cluster cluster;  ///< device r runs rank r
};

/// The same with the cluster, and times and bytes of a run fit 64 bits. Errors: those of program_costs(),
/// build_cluster(), byte_fault() and time_fault().
tl::expected<ProgramPrices, std::string> program_prices(const PriceTerms& terms, const StageCut& cut,
                                                        const Program& program);

}  // namespace penstock
