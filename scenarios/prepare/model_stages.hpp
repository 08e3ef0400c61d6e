#pragma once
// The model's figures for each stage, before they are scaled to the microbatch in force. Used by
// stage_costs.cpp, which scales them.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/read/weight_state.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"

namespace penstock {

/// The figures of one stage before scaling.
struct UnscaledStage {
  StageCost cost;
  Ns overhead_ns = 0;
  Bytes activation = 0;
  Bytes gradient = 0;
};

using UnscaledStages = tl::expected<std::vector<UnscaledStage>, std::string>;

/// Returns the stages of a model with figures for each stage. Errors: a list whose length is not `stages`,
/// backward times that do not add up.
UnscaledStages unscaled_stages(const StageFigures& figures, const BytesPerWeightByte& beside,
                               std::int32_t stages);
/// Returns the stages of a model of layers. Stage i has the layers from ends[i - 1] to ends[i], and its
/// figures are their sums. Error: a figure that exceeds 2^63.
UnscaledStages unscaled_stages(const LayerGraph& graph, const BytesPerWeightByte& beside,
                               const std::vector<std::int32_t>& ends);

}  // namespace penstock
