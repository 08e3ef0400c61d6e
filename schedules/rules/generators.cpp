// Before a generator is asked its shape is checked (shape_checks.hpp), so that it may rely on counts of at
// least 1 and on options that it takes. Replicas of the pipeline, sharding and gradient buckets are passes
// over what it gave, the same for all schedules:
//
//   shape -> checked -> of one copy -> the schedule's rule -> copies -> buckets -> sharding

#include "schedules/rules/generators.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/nearest_name.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/buckets.hpp"
#include "schedules/passes/pipeline_replicas.hpp"
#include "schedules/passes/sharding.hpp"
#include "schedules/rules/shape_checks.hpp"

namespace penstock {
namespace {

/// What one copy of the pipeline is generated for.
Shape of_one_copy(const ScheduleInfo& schedule, Shape shape) {
  shape.microbatches /= shape.data_parallel;
  if (!takes_option(schedule, "replica_sync")) shape.replica_sync = ReplicaSync::on;
  if (!takes_option(schedule, "reduction")) shape.reduction = Reduction::overlapped;
  shape.data_parallel = 1;
  shape.buckets.clear();
  shape.sharding = 0;
  return shape;
}

/// A row of the table, and a shape with the number of chunks that it fixes.
struct Asked {
  const ScheduleInfo* schedule = nullptr;
  Shape shape;
};

tl::expected<Asked, std::string> checked(std::string_view name, const Shape& shape) {
  const ScheduleInfo* schedule = find_schedule(name);
  if (schedule == nullptr) {
    std::vector<std::string_view> names;
    for (const ScheduleInfo& row : schedule_table()) names.push_back(row.name);
    return tl::unexpected(fmt::format("schedule: unknown schedule '{}'; did you mean '{}'? Known: {}", name,
                                      nearest_name(name, names), fmt::join(names, ", ")));
  }
  if (auto given = check_given(*schedule, shape); !given) return tl::unexpected(given.error());
  Asked asked{.schedule = schedule, .shape = shape};
  asked.shape.virtual_stages = chunks_of(*schedule, shape);
  if (auto size = check_possible_size(asked.shape); !size) return tl::unexpected(size.error());
  return asked;
}

bool has_passes_over_it(const Shape& shape) {
  return shape.data_parallel > 1 || !shape.buckets.empty() || shape.sharding > 0 ||
         shape.checkpoint != Checkpoint::never;
}

GeneratedWithNotes answer_of(const ScheduleInfo& schedule, const Shape& shape) {
  if (schedule.generate_with_notes != nullptr) return schedule.generate_with_notes(shape);
  return schedule.generate(shape).map(
      [](Program program) { return ProgramWithNotes{.program = std::move(program), .notes = {}}; });
}

Generated with_passes(Program program, const Shape& shape) {
  Generated pipeline = std::move(program);
  if (shape.data_parallel > 1) {
    pipeline = replicate_pipeline(
        *pipeline, {.count = shape.data_parallel, .sync = shape.replica_sync, .reduction = shape.reduction});
  }
  if (pipeline && !shape.buckets.empty())
    pipeline = split_into_buckets(*pipeline, {.counts = shape.buckets, .reduction = shape.reduction});
  if (!pipeline || shape.sharding == 0) return pipeline;
  return shard_stages(*pipeline, shape.sharding);
}

}  // namespace

std::int32_t chunks_of(const ScheduleInfo& schedule, const Shape& shape) {
  return schedule.chunks > 0 ? schedule.chunks : shape.virtual_stages;
}

std::int64_t claimed_peak(const ScheduleInfo& schedule, const Shape& shape, std::int32_t rank) {
  return schedule.peak_activations(of_one_copy(schedule, shape), rank / shape.data_parallel);
}

GeneratedWithNotes generate_with_notes(std::string_view name, const Shape& shape) {
  const auto asked = checked(name, shape);
  if (!asked) return tl::unexpected(asked.error());
  if (auto size = check_stored_size(asked->shape); !size) return tl::unexpected(size.error());
  auto answer = answer_of(*asked->schedule, of_one_copy(*asked->schedule, asked->shape));
  if (!answer) return answer;
  auto program = with_passes(std::move(answer->program), shape);
  if (!program) return tl::unexpected(program.error());
  return ProgramWithNotes{.program = *std::move(program), .notes = std::move(answer->notes)};
}

Generated generate(std::string_view name, const Shape& shape) {
  return generate_with_notes(name, shape).map([](ProgramWithNotes answer) {
    return std::move(answer.program);
  });
}

GeneratedLoops generate_loops(std::string_view name, const Shape& shape) {
  const auto asked = checked(name, shape);
  if (!asked) return tl::unexpected(asked.error());
  if (asked->schedule->declare != nullptr && !has_passes_over_it(shape))
    return asked->schedule->declare(asked->shape);
  return generate(name, shape).map([](Program program) { return rolled(std::move(program)); });
}

ShapeCheck check_shape(std::string_view name, const Shape& shape) {
  const auto asked = checked(name, shape);
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
