#pragma once
// Turns the model's figures into the costs of each stage and edge for the microbatch in force. Used by
// program_prices.cpp.

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

}  // namespace penstock
