#pragma once
// Converts the costs of a chain of stages to the form of engines: whole nanoseconds and bytes, and the links
// between stages. Used by prepare/device_prices.cpp and by planning, which prices thousands of
// configurations.

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "scenarios/pricing/stage_prices.hpp"
#include "scenarios/pricing/step_prices.hpp"
#include "scenarios/pricing/workload.hpp"
#include "schedules/ir/cost_table.hpp"
#include "topology/presets.hpp"

namespace penstock {

/// Returns an error message if the prices do not fit in 64 bits, and nothing if they fit. Deferred work
/// counts once for each of the `microbatches`.
std::optional<std::string> chain_fault(std::span<const StagePrice> prices, const RankStep& step,
                                       std::int64_t microbatches);

/// Returns the costs of the stages and of the edges between them. `rank_of_stage` determines which stages
/// share the step of a rank. Requires that chain_fault() returns nothing.
CostTable chain_costs(std::span<const StagePrice> prices, std::span<const std::int32_t> rank_of_stage,
                      const RankStep& step, std::int64_t microbatches);

/// Returns the links over which the workload's stages send activations and gradients.
UniformCluster links_between_stages(const Workload& work);

}  // namespace penstock
