#pragma once
// A scenario's schedule and the batch that it runs, made to agree: of the whole scenario, or of one of the
// copies of a pipeline that it is priced as.

#include <string>
#include <tl/expected.hpp>

#include "scenarios/prepare/compute_program.hpp"
#include "scenarios/read/batch.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

struct ScheduleInForce {
  ResolvedBatch batch;
  StatedSchedule schedule;  ///< with the batch's microbatches; the scenario must outlive it
};

/// Errors: those of resolve_batch(); microbatches stated beside a program file that has others.
tl::expected<ScheduleInForce, std::string> schedule_in_force(const Scenario& scenario);
/// The same with the batch of one of the copies of a pipeline in the place of the scenario's.
tl::expected<ScheduleInForce, std::string> schedule_in_force(const Scenario& scenario, Batch batch);

}  // namespace penstock
