// The batch says how many microbatches a schedule has and how large each is; a program file says their number
// itself.

#include "scenarios/prepare/schedule_in_force.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/read/batch.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/return_if_error.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/rules/shape_checks.hpp"

namespace penstock {

// --- placed program --------------------------------------------------------------------------------------
//
// Where stages are depends neither on costs nor on buckets: the program that is generated without them says
// how many stages the model is cut into and which links lie between them.

namespace {

/// Returns the shape of the generated program. Buckets come later, and a limit counts bytes, which are not
/// known yet. compute_program() obeys both.
Shape shape_without_costs(const StatedSchedule& schedule) {
  Shape shape = schedule.shape;
  shape.buckets.clear();
  if (schedule.weighs_costs) shape.memory_limit.clear();
  return shape;
}

/// Returns the error that generate() gives because of the shape, if there is one.
tl::expected<void, std::string> check_stored_shape(const std::string& name, Shape shape) {
  if (auto takes = check_shape(name, shape); !takes) return takes;
  shape.virtual_stages = chunks_of(*find_schedule(name), shape);
  return check_stored_size(shape);
}

}  // namespace

tl::expected<Program, std::string> placed_program(const StatedSchedule& schedule) {
  if (schedule.program != nullptr) {
    if (schedule.shape.buckets.empty()) return *schedule.program;
    return tl::unexpected(std::string("schedule.buckets: a program has its own stages; leave it out"));
  }
  return generate(schedule.name, shape_without_costs(schedule));
}

tl::expected<Program, std::string> placed_stages(const StatedSchedule& schedule) {
  if (!schedule.weighs_costs) return placed_program(schedule);
  Shape shape = shape_without_costs(schedule);
  PENSTOCK_RETURN_IF_ERROR(check_stored_shape(schedule.name, shape));
  // The stages are on the same ranks for any number of microbatches, so one for each copy is enough.
  shape.microbatches = shape.data_parallel;
  return generate(schedule.name, shape).map([&](Program program) {
    program.microbatches = schedule.shape.microbatches;
    for (std::vector<Action>& list : program.ranks) list.clear();
    return program;
  });
}

// --- schedule in force -----------------------------------------------------------------------------------

namespace {

/// The schedule as the scenario states it, but for its microbatches.
StatedSchedule stated_schedule(const Scenario& scenario) {
  const Program* program = scenario.program ? &*scenario.program : nullptr;
  const ScheduleInfo* generated = program == nullptr ? find_schedule(scenario.schedule) : nullptr;
  return {.program = program,
          .name = scenario.schedule,
          .shape = scenario.shape,
          .weighs_costs = generated != nullptr && generated->weighs_costs};
}

}  // namespace

tl::expected<ScheduleInForce, std::string> schedule_in_force(const Scenario& scenario,
                                                             std::optional<std::int32_t> copies) {
  StatedSchedule schedule = stated_schedule(scenario);
  const Program* program = schedule.program;
  const MicrobatchMeaning meaning =
      meaning_of_microbatch(program == nullptr ? schedule.name : program->schedule);
  auto batch = copies ? batch_of_copy(scenario.batch, *copies) : scenario.batch;
  if (!batch) return tl::unexpected(batch.error());
  if (program != nullptr) {
    // Stated twice and the same is no contradiction: a flag may repeat what the file has.
    if (batch->microbatches && *batch->microbatches != program->microbatches) {
      return tl::unexpected(
          fmt::format("schedule.microbatches: the program has {}, got {}; leave the key out",
                      program->microbatches, *batch->microbatches));
    }
    batch->microbatches = program->microbatches;
  }
  const auto resolved = resolve_batch(*batch, meaning);
  // Both at once, where neither is stated: who mends a file wants to hear of all that it lacks.
  const bool is_named = program != nullptr || !schedule.name.empty();
  const std::string no_name = "schedule.name is missing: expected the name of a schedule such as gpipe";
  if (!resolved && !is_named) return tl::unexpected(fmt::format("{}; {}", no_name, resolved.error()));
  if (!resolved) return tl::unexpected(resolved.error());
  if (!is_named) return tl::unexpected(no_name);
  schedule.shape.microbatches = resolved->microbatches;
  return ScheduleInForce{.stated = *batch, .batch = *resolved, .schedule = std::move(schedule)};
}

}  // namespace penstock
