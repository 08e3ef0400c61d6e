#pragma once
// A scenario's schedule and the batch that it runs, made to agree: of the whole scenario, or of one of the
// copies of a pipeline that it is priced as.

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "scenarios/prepare/placed_program.hpp"
#include "scenarios/read/batch.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

struct ScheduleInForce {
  Batch stated;  ///< of what runs, with the microbatches of a program file
  ResolvedBatch batch;
  StatedSchedule schedule;  ///< with the batch's microbatches; the scenario must outlive its program
};

/// Of the whole scenario, or of one of `copies` of its pipeline, which share the batch. Errors: those of
/// batch_of_copy() and resolve_batch(); microbatches stated beside a program file that has others.
tl::expected<ScheduleInForce, std::string> schedule_in_force(const Scenario& scenario,
                                                             std::optional<std::int32_t> copies = {});

}  // namespace penstock
