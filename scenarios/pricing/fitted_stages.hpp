#pragma once
// The times of a pipeline's stages from costs that were fitted to measured iterations. Used by
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
  /// The forward and backward of one microbatch.
  Ns microbatch_ns = 0;
  /// The step of the stage's rank, in the first of the rank's stages; 0 in the others.
  Ns step_ns = 0;
};

/// A pipeline of layers of one kind, with `layers` in each stage and the stage on `rank_of_stage`.
struct FittedPipeline {
  FittedLayer kind;
  /// The copies of the pipeline.
  std::int32_t copies = 1;
  std::span<const std::int64_t> layers;
  std::span<const std::int32_t> rank_of_stage;
};

/// Returns the times by stage. Error: a kind of layers that was not measured.
tl::expected<std::vector<FittedStage>, std::string> fitted_stages(const IterationCosts& costs,
                                                                  const FittedPipeline& pipeline);

}  // namespace penstock
