#pragma once
// What the stages of a pipeline take by costs that were fitted on measured iterations. Used by
// prepare/fitted_prices.cpp.

#include <cstdint>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/pricing/iteration_costs.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

struct FittedStage {
  Ns microbatch_ns = 0;  ///< forward and backward of one microbatch
  Ns step_ns = 0;        ///< its rank's step, in the first of the rank's stages; 0 in the others
};

/// A pipeline of layers of one kind, `layers` in each stage, which is on `rank_of_stage`.
struct FittedPipeline {
  FittedLayer kind;
  std::int32_t copies = 1;  ///< of the pipeline
  std::span<const std::int64_t> layers;
  std::span<const std::int32_t> rank_of_stage;
};

/// By stage. Error: a kind of layers that was not measured.
tl::expected<std::vector<FittedStage>, std::string> fitted_stages(const IterationCosts& costs,
                                                                  const FittedPipeline& pipeline);

}  // namespace penstock
