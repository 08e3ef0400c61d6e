#pragma once
// One of the copies of a pipeline that a scenario is priced as, before its stages have prices. Used by
// device_prices.cpp and fitted_prices.cpp.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/read/batch.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

struct PipelineCopy {
  Batch batch;  ///< of one copy, so that it is resolved alike when the copy is prepared
  ResolvedBatch resolved;
  Program placed;                           ///< placed_program() of the copy's schedule
  std::vector<std::int64_t> layers;         ///< by model stage
  std::vector<std::int32_t> rank_of_stage;  ///< by model stage
};

/// Of a scenario whose batch is shared out over so many copies, and of a model of `layers` layers. Errors:
/// those of schedule_in_force_of_copy(), placed_program() and split_layers().
tl::expected<PipelineCopy, std::string> pipeline_copy(const Scenario& scenario, std::int32_t copies,
                                                      const LayerSplit& split, std::int64_t layers);

}  // namespace penstock
