// The batch says how many microbatches a schedule has and how large each is; a program file says their number
// itself.

#include "scenarios/prepare/schedule_in_force.hpp"

#include <string>
#include <utility>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/prepare/compute_program.hpp"
#include "scenarios/read/batch.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

tl::expected<ScheduleInForce, std::string> schedule_in_force(const Scenario& scenario, Batch batch) {
  const Program* program = scenario.program ? &*scenario.program : nullptr;
  if (program != nullptr) {
    if (batch.microbatches && *batch.microbatches != program->microbatches) {
      return tl::unexpected(
          fmt::format("schedule.microbatches: the program has {}, got {}; leave the key out",
                      program->microbatches, *batch.microbatches));
    }
    batch.microbatches = program->microbatches;
  }
  const std::string& name = program == nullptr ? scenario.schedule : program->schedule;
  const auto resolved = resolve_batch(batch, meaning_of_microbatch(name));
  if (!resolved) return tl::unexpected(resolved.error());
  StatedSchedule schedule{.program = program, .name = scenario.schedule, .shape = scenario.shape};
  schedule.shape.microbatches = resolved->microbatches;
  return ScheduleInForce{.batch = *resolved, .schedule = std::move(schedule)};
}

tl::expected<ScheduleInForce, std::string> schedule_in_force(const Scenario& scenario) {
  return schedule_in_force(scenario, scenario.batch);
}

}  // namespace penstock
