#pragma once
// A model's figures by stage, for the microbatch that they hold for. Used by stage_costs.cpp, which scales
// them.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/read/weight_state.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"

namespace penstock {

/// One stage's figures before scaling.
struct UnscaledStage {
  StageCost cost;
  Ns overhead_ns = 0;
  Bytes activation = 0;
  Bytes gradient = 0;
};

using UnscaledStages = tl::expected<std::vector<UnscaledStage>, std::string>;

/// Of figures stage by stage. Errors: a list whose length is not `stages`, a sum that does not hold.
UnscaledStages unscaled_stages(const StageFigures& figures, const BytesPerWeightByte& beside,
                               std::int32_t stages);
/// Of layers, of which stage i has those from ends[i - 1] to ends[i]: their sums. Error: a figure beyond
/// 2^63.
UnscaledStages unscaled_stages(const LayerGraph& graph, const BytesPerWeightByte& beside,
                               const std::vector<std::int32_t>& ends);

}  // namespace penstock
