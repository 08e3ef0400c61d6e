#pragma once
// A scenario's schedule and the batch that it runs, made to agree: of the whole scenario, or of one of the
// copies of a pipeline that it is priced as.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/prepare/compute_program.hpp"
#include "scenarios/read/batch.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

struct ScheduleInForce {
  ResolvedBatch batch;
  StatedSchedule schedule;  ///< with the batch's microbatches; the scenario must outlive it
};

/// Errors: those of resolve_batch(); microbatches stated beside a program file that has others.
tl::expected<ScheduleInForce, std::string> schedule_in_force(const Scenario& scenario);

struct PipelineCopy {
  Batch batch;  ///< of one copy, as stated
  ScheduleInForce in_force;
};

/// Of a scenario whose batch is shared out over so many copies. Errors: those of batch_of_copy() and
/// schedule_in_force().
tl::expected<PipelineCopy, std::string> pipeline_copy(const Scenario& scenario, std::int32_t copies);

/// By model stage its rank. Requires stages of one rank each.
std::vector<std::int32_t> ranks_of_stages(const Program& program);

}  // namespace penstock
