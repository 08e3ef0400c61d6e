// Makes a program from a name and a shape, in two steps that are the same for all schedules:
//
//   name, shape -> checked       -> the schedule's rule for one copy, and passes over its result
//                  asked_schedule   pipeline_copies
//
// Tested by conformance_test.cpp.

#include "schedules/rules/generators.hpp"

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/asked_schedule.hpp"
#include "schedules/rules/pipeline_copies.hpp"
#include "schedules/rules/shape_checks.hpp"

namespace penstock {
namespace {

/// Returns true if the shape requires passes over plain lists, which cannot work on loops.
bool has_passes_over_it(const Shape& shape) {
  return shape.data_parallel > 1 || !shape.buckets.empty() || shape.sharding.value_or(0) > 0 ||
         shape.checkpoint != Checkpoint::never;
}

}  // namespace

std::int32_t chunks_of(const ScheduleInfo& schedule, const Shape& shape) {
  return schedule.chunks > 0 ? schedule.chunks : shape.virtual_stages;
}

std::int64_t claimed_peak(const ScheduleInfo& schedule, const Shape& shape, std::int32_t rank) {
  // The copies of a rank have consecutive numbers (pipeline_replicas.hpp).
  return schedule.peak_activations(of_one_copy(schedule, shape), rank / shape.data_parallel);
}

GeneratedWithNotes generate_with_notes(std::string_view name, const Shape& shape) {
  const auto asked = asked_schedule(name, shape);
  if (!asked) return tl::unexpected(asked.error());
  if (auto size = check_stored_size(asked->shape); !size) return tl::unexpected(size.error());
  return all_copies(*asked);
}

Generated generate(std::string_view name, const Shape& shape) {
  return generate_with_notes(name, shape).map([](ProgramWithNotes answer) {
    return std::move(answer.program);
  });
}

GeneratedLoops generate_loops(std::string_view name, const Shape& shape) {
  const auto asked = asked_schedule(name, shape);
  if (!asked) return tl::unexpected(asked.error());
  if (asked->schedule->declare != nullptr && !has_passes_over_it(shape))
    return asked->schedule->declare(asked->shape);
  return generate(name, shape).map([](Program program) { return rolled(std::move(program)); });
}

ShapeCheck check_shape(std::string_view name, const Shape& shape) {
  const auto asked = asked_schedule(name, shape);
  if (!asked) return tl::unexpected(asked.error());
  if (asked->schedule->takes == nullptr) return {};
  return asked->schedule->takes(of_one_copy(*asked->schedule, asked->shape));
}

double compute_actions(std::string_view name, const Shape& shape) {
  const ScheduleInfo* schedule = find_schedule(name);
  if (schedule == nullptr) return 0;
  Shape complete = shape;
  complete.virtual_stages = chunks_of(*schedule, shape);
  return compute_actions_of(complete);
}

}  // namespace penstock
