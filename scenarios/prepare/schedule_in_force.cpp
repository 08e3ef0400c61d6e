// Copies do the same at the same time, so one of them is a scenario of its own, whose batch is a part of the
// whole:
//
//   batch  -> of one copy -> resolved: size and number of microbatches -> the schedule's shape
//   a program file says its number of microbatches itself, a copy's

#include "scenarios/prepare/schedule_in_force.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/prepare/compute_program.hpp"
#include "scenarios/read/batch.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

/// `batch` is the scenario's or a copy's.
tl::expected<ScheduleInForce, std::string> schedule_with(const Scenario& scenario, Batch batch) {
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

}  // namespace

tl::expected<ScheduleInForce, std::string> schedule_in_force(const Scenario& scenario) {
  return schedule_with(scenario, scenario.batch);
}

tl::expected<PipelineCopy, std::string> pipeline_copy(const Scenario& scenario, std::int32_t copies) {
  auto batch = batch_of_copy(scenario.batch, copies);
  if (!batch) return tl::unexpected(batch.error());
  auto in_force = schedule_with(scenario, *batch);
  if (!in_force) return tl::unexpected(in_force.error());
  // So that the copy is resolved alike when it is prepared.
  if (scenario.program) batch->microbatches = in_force->batch.microbatches;
  return PipelineCopy{.batch = *std::move(batch), .in_force = *std::move(in_force)};
}

std::vector<std::int32_t> ranks_of_stages(const Program& program) {
  std::vector<std::int32_t> ranks;
  ranks.reserve(static_cast<std::size_t>(program.stage_count()));
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage)
    ranks.push_back(program.placement.rank_of(stage, 0));
  return ranks;
}

}  // namespace penstock
