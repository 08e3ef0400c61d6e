#pragma once
// Computes the times of a pipeline's stages from costs that were fitted to measured iterations. Used by
// prepare/fitted_prices.cpp.

#include <cstdint>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/pricing/iteration_costs.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// The times of one stage.
struct FittedStage {
  /// The time of forward and backward for one microbatch.
  Ns microbatch_ns = 0;
  /// The time of a rank's step. The first stage of the rank has the whole time, and its other stages have 0.
  Ns step_ns = 0;
};

/// A pipeline of layers of one kind. `layers` and `rank_of_stage` have one entry for each stage.
struct FittedPipeline {
  FittedLayer kind;
  /// The number of copies of the pipeline.
  std::int32_t copies = 1;
  std::span<const std::int64_t> layers;
  std::span<const std::int32_t> rank_of_stage;
};

/// Returns the times of each stage. Error: a kind of layer that was not measured.
tl::expected<std::vector<FittedStage>, std::string> fitted_stages(const IterationCosts& costs,
                                                                  const FittedPipeline& pipeline);

}  // namespace penstock
