// The batch says how many microbatches a schedule has and how large each is; a program file says their number
// itself.

#include "scenarios/prepare/schedule_in_force.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/read/batch.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

// --- placed program --------------------------------------------------------------------------------------
//
// Where stages are depends neither on costs nor on buckets: the program that is generated without them says
// how many stages the model is cut into and which links lie between them.

tl::expected<Program, std::string> placed_program(const StatedSchedule& schedule) {
  Shape shape = schedule.shape;
  if (schedule.program != nullptr) {
    if (shape.buckets.empty()) return *schedule.program;
    return tl::unexpected(std::string("schedule.buckets: a program has its own stages; leave it out"));
  }
  shape.buckets.clear();
  // A limit counts bytes, which nobody knows yet; it is kept when the order is searched
  // (compute_program.cpp).
  if (schedule.weighs_costs) shape.memory_limit.clear();
  return generate(schedule.name, shape);
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
