#pragma once
// What a program's stages, edges and messages cost on its cluster, in the microbatch in force. Schedules that
// weigh costs ask for the prices of whole stages first (prepared_program.cpp).

#include <cstdint>
#include <string>

#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/cut.hpp"
#include "scenarios/prepare/model_stages.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "topology/cluster.hpp"

namespace penstock {

/// The properties of the training on which prices depend.
struct Pricing {
  Scaling samples;  ///< from the microbatch size of the model's figures to the one in force
  BytesPerWeightByte beside;
  std::int32_t pipeline_size = 0;  ///< the stated K; 0 for a program file
};

/// Returns the costs of the stages and edges of `program`. If microbatches differ, it uses their mean.
/// Durations and bytes of a microbatch scale linearly and are rounded to the nearest, and a slice takes its
/// share. Step, weights, gradients, optimizer state and overhead do not scale; overhead is added after
/// scaling. Unit costs scale with the samples, but a slice costs as much as a microbatch. Requires that `cut`
/// is the model's cut for this program. Errors: a list whose length is not the number of stages, backward
/// times that do not add up, a figure that exceeds 2^63.
tl::expected<CostTable, std::string> stage_costs(const Model& model, const StageCut& cut,
                                                 const Pricing& pricing, const Program& program);

/// Returns the costs of bucket i of a stage that is divided into n equal buckets. The buckets add up to the
/// stage.
StageCost bucket_of(const StageCost& stage, std::int32_t i, std::int32_t n);

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
