
#include "schedules/rules/pipeline_copies.hpp"

#include <cstdint>
#include <utility>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/ir/gather.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/passes/buckets.hpp"
#include "schedules/passes/pipeline_replicas.hpp"
#include "schedules/passes/sharding.hpp"
#include "schedules/rules/asked_schedule.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {
namespace {

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
  const std::int32_t sharding = shape.sharding.value_or(0);
  if (!pipeline || sharding == 0) return pipeline;
  if (sharding > 1 && shape.gather == Gather::microbatch && shape.reduction == Reduction::at_end) {
    return tl::unexpected(fmt::format(
        "reduction: at_end waits for all backward passes, but sharding {} scatters the gradients of "
        "each microbatch; leave it out, or take `parallel.gather: step`",
        sharding));
  }
  return shard_stages(*pipeline, {.sharding = sharding, .gather = shape.gather});
}

}  // namespace

Shape of_one_copy(const ScheduleInfo& schedule, Shape shape) {
  // These two options also apply to copies of the pipeline. The rule must not see them unless it has them as
  // its own options.
  shape.microbatches /= shape.data_parallel;
  if (!takes_option(schedule, "replica_sync")) shape.replica_sync = ReplicaSync::on;
  if (!takes_option(schedule, "reduction")) shape.reduction = Reduction::overlapped;
  shape.data_parallel = 1;
  shape.buckets.clear();
  shape.sharding.reset();
  shape.gather = Gather::microbatch;
  return shape;
}

GeneratedWithNotes all_copies(const AskedSchedule& asked) {
  auto answer = answer_of(*asked.schedule, of_one_copy(*asked.schedule, asked.shape));
  if (!answer) return answer;
  auto program = with_passes(std::move(answer->program), asked.shape);
  if (!program) return tl::unexpected(program.error());
  return ProgramWithNotes{.program = *std::move(program), .notes = std::move(answer->notes)};
}

}  // namespace penstock
