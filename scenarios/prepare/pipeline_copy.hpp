#pragma once
// One of the copies of a pipeline that a scenario is priced as: its part of the batch, its schedule, the rank
// of each of its stages. Used by device_prices.cpp and fitted_prices.cpp.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/prepare/compute_program.hpp"
#include "scenarios/read/batch.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

struct PipelineCopy {
  Batch batch;  ///< of one copy, as stated
  ResolvedBatch resolved;
  StatedSchedule schedule;  ///< with the copy's microbatches; the scenario must outlive it
};

/// Of a scenario whose batch is shared out over so many copies. Errors: those of batch_of_copy() and
/// resolve_batch().
tl::expected<PipelineCopy, std::string> pipeline_copy(const Scenario& scenario, std::int32_t copies);

/// By model stage its rank. Requires stages of one rank each.
std::vector<std::int32_t> ranks_of_stages(const Program& program);

}  // namespace penstock
