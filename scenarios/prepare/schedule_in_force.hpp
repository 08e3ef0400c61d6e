#pragma once
// A scenario's schedule and the batch that it runs, made to agree: of the whole scenario, or of one of the
// copies of a pipeline that it is priced as.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "scenarios/prepare/placed_program.hpp"
#include "scenarios/read/batch.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

struct ScheduleInForce {
  Batch stated;  ///< of what runs
  ResolvedBatch batch;
  StatedSchedule schedule;  ///< with the batch's microbatches; the scenario must outlive it
};

/// Errors: those of resolve_batch(); microbatches stated beside a program file that has others.
tl::expected<ScheduleInForce, std::string> schedule_in_force(const Scenario& scenario);
/// Of one of `copies` of a pipeline, which share the scenario's batch. Errors: as above, and those of
/// batch_of_copy().
tl::expected<ScheduleInForce, std::string> schedule_in_force_of_copy(const Scenario& scenario,
                                                                     std::int32_t copies);

}  // namespace penstock
