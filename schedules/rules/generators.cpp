// Generates a schedule by name. Each rule makes one copy of a pipeline. Passes then make the other copies.
// The rules are in their own files. asked_schedule.cpp checks the name and the shape, and schedule_table.cpp
// lists the schedules.

#include "schedules/rules/generators.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/rules/asked_schedule.hpp"

namespace penstock {

// Applies the passes that are the same for all schedules. A schedule's rule generates one copy of a pipeline.
// Then passes add copies, gradient buckets, sharding, and copies of activations to and from hosts:
//
//   shape of one copy -> the schedule's rule -> copies -> buckets -> sharding -> offload
//

/// Returns the shape of one copy of the pipeline. It lacks the options that passes apply afterwards, such
/// as copies, gradient buckets, sharding and offload.
Shape of_one_copy(const ScheduleInfo& schedule, Shape shape);

/// Returns the program with all copies of the pipeline, and with the gradient buckets and the sharding that
/// the shape states. Fails with the errors of the schedule's rule and of the passes.
GeneratedWithNotes all_copies(const AskedSchedule& asked);

namespace {

GeneratedWithNotes answer_of(const ScheduleInfo& schedule, const Shape& shape) {
  if (schedule.generate_with_notes != nullptr) return schedule.generate_with_notes(shape);
  return schedule.generate(shape).map([&](Program program) {
    if (shape.passes != Passes::both) program = forward_half(std::move(program), shape.passes);
    return ProgramWithNotes{.program = std::move(program), .notes = {}};
  });
}

Generated with_passes(Program program, const Shape& shape) {
  Generated pipeline = std::move(program);
  const auto with_offload = [&](Program whole) {
    if (shape.offload.empty()) return whole;
    // The copies of a rank have consecutive numbers (passes.hpp).
    std::vector<double> shares;
    for (std::size_t rank = 0; rank < whole.ranks.size(); ++rank) {
      const std::size_t of_copy = rank / static_cast<std::size_t>(shape.data_parallel);
      shares.push_back(shape.offload[shape.offload.size() == 1 ? 0 : of_copy]);
    }
    return offload_activations(std::move(whole), shares);
  };
  if (shape.data_parallel > 1) {
    pipeline = replicate_pipeline(
        *pipeline, {.count = shape.data_parallel, .sync = shape.replica_sync, .reduction = shape.reduction});
  }
  if (pipeline && !shape.buckets.empty())
    pipeline = split_into_buckets(*pipeline, {.counts = shape.buckets, .reduction = shape.reduction});
  const std::int32_t sharding = shape.sharding.value_or(0);
  if (!pipeline || sharding == 0) return pipeline.map(with_offload);
  if (sharding > 1 && shape.gather == Gather::microbatch && shape.reduction == Reduction::at_end) {
    return tl::unexpected(fmt::format(
        "reduction: at_end waits for all backward passes, but sharding {} scatters the gradients of "
        "each microbatch; leave it out, or take `parallel.gather: step`",
        sharding));
  }
  return shard_stages(*pipeline, {.sharding = sharding, .gather = shape.gather}).map(with_offload);
}

}  // namespace

Shape of_one_copy(const ScheduleInfo& schedule, Shape shape) {
  // The user may have stated these two options for the copies of the pipeline. A rule without these options
  // must get their default values.
  shape.microbatches /= shape.data_parallel;
  if (!takes_option(schedule, "replica_sync")) shape.replica_sync = ReplicaSync::on;
  if (!takes_option(schedule, "reduction")) shape.reduction = Reduction::overlapped;
  shape.data_parallel = 1;
  shape.buckets.clear();
  shape.sharding.reset();
  shape.gather = Gather::microbatch;
  shape.offload.clear();
  return shape;
}

GeneratedWithNotes all_copies(const AskedSchedule& asked) {
  auto answer = answer_of(*asked.schedule, of_one_copy(*asked.schedule, asked.shape));
  if (!answer) return answer;
  auto program = with_passes(std::move(answer->program), asked.shape);
  if (!program) return tl::unexpected(program.error());
  return ProgramWithNotes{.program = *std::move(program), .notes = std::move(answer->notes)};
}

// Makes a program from a name and a shape, in two steps that are the same for all schedules:
//
//   name, shape -> checked       -> the schedule's rule for one copy, and passes over its result
//                  asked_schedule   pipeline_copies
//
// Tested by conformance_test.cpp.

namespace {

/// Returns true if the shape needs passes that work on plain lists of actions. These passes cannot work on
/// lists that are stored as loops.
bool has_passes_over_it(const Shape& shape) {
  return shape.data_parallel > 1 || !shape.buckets.empty() || shape.sharding.value_or(0) > 0 ||
         shape.checkpoint != Checkpoint::never || !shape.offload.empty();
}

}  // namespace

std::int32_t chunks_of(const ScheduleInfo& schedule, const Shape& shape) {
  return schedule.chunks > 0 ? schedule.chunks : shape.virtual_stages;
}

std::int64_t claimed_peak(const ScheduleInfo& schedule, const Shape& shape, std::int32_t rank) {
  // Without backwards, an activation lives while its F runs. The outputs of all F that are kept (forward_kv)
  // live until the end.
  if (shape.passes == Passes::forward) return 1;
  if (shape.passes == Passes::forward_kv)
    return std::int64_t{shape.microbatches / shape.data_parallel} * shape.slices * chunks_of(schedule, shape);
  // The copies of a rank have consecutive numbers (passes.hpp).
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
  if (asked->schedule->declare != nullptr && !has_passes_over_it(shape)) {
    return asked->schedule->declare(asked->shape).map([&](RolledProgram rolled) {
      return shape.passes == Passes::both ? std::move(rolled) : forward_half(std::move(rolled), shape.passes);
    });
  }
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
