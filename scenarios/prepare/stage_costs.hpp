#pragma once
// Prices a program: from the model's figures to what each stage and edge costs in the microbatch in force.
// Used by program_prices.cpp.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/scaling.hpp"
#include "scenarios/prepare/stage_cut.hpp"
#include "scenarios/read/weight_state.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// What prices depend on beside the model: the training.
struct Pricing {
  Scaling samples;  ///< from the microbatch that the model's figures hold for to the one in force
  BytesPerWeightByte beside;
  std::int32_t pipeline_size = 0;  ///< K that the schedule was asked for; 0: a program file's
};

/// The costs of `program`'s stages and edges in a model whose microbatches are alike, or in their mean; each
/// slice takes its share of a microbatch. Durations and bytes of a microbatch scale linearly and are rounded
/// to the nearest; step, weights, gradients, optimizer state and overhead do not scale; overhead is added
/// after scaling. Unit costs scale, too, but a slice costs as much as a microbatch. Requires that `cut` is
/// the model's, for the program. Errors: a list whose length is not the number of stages, a sum that does not
/// hold, a figure beyond 2^63.
tl::expected<CostTable, std::string> stage_costs(const Model& model, const StageCut& cut,
                                                 const Pricing& pricing, const Program& program);

/// Bucket i of a stage that is cut into n equal ones, whose figures add up to the stage's.
StageCost bucket_of(const StageCost& stage, std::int32_t i, std::int32_t n);

}  // namespace penstock
