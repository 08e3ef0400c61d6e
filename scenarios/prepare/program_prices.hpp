#pragma once
// Computes the costs of a program's stages and edges for the microbatch size in force. If the order of a
// schedule depends on costs, prepared_program.cpp first computes the costs of stages without buckets.

#include <cstdint>
#include <optional>
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

/// The properties of the training on which costs depend.
struct Pricing {
  /// The microbatch size for which the model states its times and bytes, and the one that the run uses.
  Scaling samples;
  BytesPerWeightByte beside;
  std::int32_t pipeline_size = 0;  ///< the stated K; 0 for a program file
};

/// Returns the costs of the stages and edges of `program`. If microbatches differ, these are the costs of a
/// mean microbatch. Durations and bytes of a microbatch are proportional to its samples, and are rounded to
/// the nearest integer. If a microbatch has q slices, each takes 1/q of them. Step, weights, gradients,
/// optimizer state and overhead do not depend on samples, and overhead is added after scaling. For unit
/// costs, a slice costs as much as a microbatch. `cut` must be the model's cut for this program. Fails if the
/// length of a list is not the number of stages, if backward times do not add up, or if a figure exceeds
/// 2^63.
tl::expected<CostTable, std::string> stage_costs(const Model& model, const StageCut& cut,
                                                 const Pricing& pricing, const Program& program);

/// Returns the costs of bucket i of a stage that is divided into n equal buckets. The costs of all buckets
/// add up to the costs of the stage.
StageCost bucket_of(const StageCost& stage, std::int32_t i, std::int32_t n);

// --- cloned versions -------------------------------------------------------------------------------------

/// Sets the bytes that cloned weight versions take in each stage. They are the stage's weights times the
/// number of versions that the program needs. Returns an error if they exceed 2^63.
tl::expected<void, std::string> price_cloned_versions(CostTable& costs, const Program& program);

// --- program prices --------------------------------------------------------------------------------------

/// The parts of a scenario on which costs depend. The scenario must outlive this object.
struct PriceTerms {
  const Model& model;
  Pricing pricing;
  const ClusterSpec& cluster;
  LaunchCost launch{};
  HostLink host{};
  /// True if weight versions are cloned at the start, as in PipeDream's released runtime.
  bool clones_versions = false;
};

/// Returns the program's costs. Requires the cut of the model for this program. Fails if stage_costs() fails,
/// or if clones of weights exceed 2^63 bytes.
tl::expected<CostTable, std::string> program_costs(const PriceTerms& terms, const StageCut& cut,
                                                   const Program& program);

struct ProgramPrices {
  CostTable costs;
  Cluster cluster;  ///< device r runs rank r
};

/// Returns the program's costs and its cluster, after checking that times and bytes of a run fit in 64 bits.
/// Fails if program_costs(), build_cluster(), byte_fault() or time_fault() reports an error.
tl::expected<ProgramPrices, std::string> program_prices(const PriceTerms& terms, const StageCut& cut,
                                                        const Program& program);

// Compares the sizes that the two ends of a message state.

/// Returns an error message for the first message whose RECV expects another size than its SEND has, or
/// nothing if all agree. The message names both actions, their ranks and their sizes. `cut` is the cut of the
/// model for the program, `costs` are the program's costs, and `samples` scaled them. The program's lists may
/// be empty.
std::optional<std::string> message_size_fault(const Model& model, const StageCut& cut, Scaling samples,
                                              const Program& program, const CostTable& costs);

}  // namespace penstock
