// What is checked for all schedules before a generator is asked, and what is made of its answer. A generator
// may rely on counts of at least 1 and on options that it takes; an option that it does not take is refused
// here when it differs from its default, rather than ignored. Replicas of the pipeline, sharding and gradient
// buckets are passes over what the generator gave, the same for all schedules.

#include "schedules/rules/generators.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
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

namespace penstock {
namespace {

bool takes(const ScheduleInfo& schedule, std::string_view option) {
  return std::ranges::find(schedule.options, option) != schedule.options.end();
}

/// The options that differ from their default, by their key.
std::vector<std::string_view> given_options(const Shape& shape) {
  const Shape defaults;
  std::vector<std::string_view> given;
  const auto note = [&](std::string_view key, bool is_given) {
    if (is_given) given.push_back(key);
  };
  note("virtual_stages", shape.virtual_stages != defaults.virtual_stages);
  note("replicas", shape.replicas != defaults.replicas);
  note("warmup", shape.warmup != defaults.warmup);
  note("backward_order", shape.backward_order != defaults.backward_order);
  note("checkpoint", shape.checkpoint != defaults.checkpoint);
  note("recompute", shape.recompute != defaults.recompute);
  note("routing", shape.routing != defaults.routing);
  note("weights", shape.weights != defaults.weights);
  note("replica_sync", shape.replica_sync != defaults.replica_sync);
  note("reduction", shape.reduction != defaults.reduction);
  note("update", shape.update != defaults.update);
  note("group_size", shape.group_size != defaults.group_size);
  note("slices", shape.slices != defaults.slices);
  note("memory_limit", shape.memory_limit != defaults.memory_limit);
  note("effort", shape.effort != defaults.effort);
  note("objective", shape.objective != defaults.objective);
  note("placement", shape.placement != defaults.placement);
  return given;
}

tl::expected<void, std::string> check_counts(const ScheduleInfo& schedule, const Shape& shape) {
  const auto at_least_one = [](std::string_view key, std::int64_t count) -> tl::expected<void, std::string> {
    if (count >= 1) return {};
    return tl::unexpected(fmt::format("{}: expected a number of at least 1, got {}", key, count));
  };
  for (const auto& [key, count] :
       {std::pair{"stages", shape.stages}, std::pair{"microbatches", shape.microbatches},
        std::pair{"virtual_stages", shape.virtual_stages}, std::pair{"iterations", shape.iterations},
        std::pair{"slices", shape.slices}}) {
    if (auto checked = at_least_one(key, count); !checked) return checked;
  }
  if (shape.sharding < 0 || shape.sharding > 3) {
    return tl::unexpected(
        fmt::format("sharding: expected a ZeRO stage, 0 (none) to 3, got {}", shape.sharding));
  }
  if (shape.group_size < 0) {
    return tl::unexpected(fmt::format(
        "group_size: expected a number of at least 1, or 0 for the rule's own, got {}", shape.group_size));
  }
  if (schedule.chunks > 0 && shape.virtual_stages != 1 && shape.virtual_stages != schedule.chunks) {
    return tl::unexpected(
        fmt::format("virtual_stages: {} has {} model chunks a rank by its rule, got {}; leave it out",
                    schedule.name, schedule.chunks, shape.virtual_stages));
  }
  for (const std::int32_t count : shape.replicas) {
    if (auto checked = at_least_one("replicas", count); !checked) return checked;
  }
  for (const std::int32_t count : shape.warmup) {
    if (count < 0)
      return tl::unexpected(fmt::format("warmup: expected a number of at least 0, got {}", count));
  }
  const auto stages = static_cast<std::size_t>(shape.stages);
  const bool replicas_fit =
      shape.replicas.size() <= 1 || (shape.replicas.size() == stages && schedule.name != "data-parallel");
  if (!replicas_fit) {
    return tl::unexpected(fmt::format("replicas: expected {}, got {} numbers",
                                      schedule.name == "data-parallel"
                                          ? "one number, the ranks"
                                          : fmt::format("one number or {}, one a stage", stages),
                                      shape.replicas.size()));
  }
  if (shape.warmup.size() > 1 && shape.warmup.size() != stages) {
    return tl::unexpected(fmt::format("warmup: expected one number or {}, one a stage, got {} numbers",
                                      stages, shape.warmup.size()));
  }
  return {};
}

double stages_of(const Shape& shape) {
  const double most_buckets = shape.buckets.empty() ? 1 : std::max(1, std::ranges::max(shape.buckets));
  return static_cast<double>(shape.stages) * shape.virtual_stages * most_buckets;
}
double units_of(const Shape& shape) {
  return static_cast<double>(shape.microbatches) * shape.iterations * shape.slices;
}

/// Refuses what no machine could hold before anything is allocated.
tl::expected<void, std::string> check_size(const Shape& shape) {
  constexpr double kMostActions = 1LL << 40;
  constexpr double kMostNumber = std::numeric_limits<std::int32_t>::max();
  const double ranks = static_cast<double>(shape.stages) * shape.data_parallel;
  const double model_stages = stages_of(shape);
  const double microbatches = units_of(shape);
  const double actions = model_stages * microbatches * 2;
  if (actions > kMostActions || model_stages > kMostNumber || microbatches > kMostNumber ||
      ranks > kMostNumber) {
    return tl::unexpected(
        fmt::format("an impossible shape: {} stages x {} microbatches x {} iterations are {:.3g} compute "
                    "actions, more than 2^40, or a number above 2^31; take fewer",
                    model_stages, shape.microbatches, shape.iterations, actions));
  }
  return {};
}

/// Refuses what engines that store a program cannot number.
tl::expected<void, std::string> check_stored_size(const Shape& shape) {
  constexpr double kMostNumberedActions = 1LL << 29;  // up to four list entries each, in 32 bits
  const double actions = stages_of(shape) * units_of(shape) * 2;
  if (actions <= kMostNumberedActions) return {};
  return tl::unexpected(fmt::format(
      "a shape of {:.3g} compute actions is too large: the engines number at most 2^29 of them; take fewer "
      "stages, microbatches or iterations, or simulate it without a timeline",
      actions));
}

/// Refuses what the schedule does not take. `replica_sync` and `reduction` also speak of copies of the
/// pipeline.
tl::expected<void, std::string> check_options(const ScheduleInfo& schedule, const Shape& shape) {
  for (const std::string_view key : given_options(shape)) {
    const bool of_copies = shape.data_parallel > 1 && (key == "replica_sync" || key == "reduction");
    if (of_copies || takes(schedule, key)) continue;
    return tl::unexpected(fmt::format(
        "{}: {} does not take it; it takes {}", key, schedule.name,
        schedule.options.empty() ? "no such option" : fmt::format("{}", fmt::join(schedule.options, ", "))));
  }
  return {};
}

tl::expected<void, std::string> check_copies(const ScheduleInfo& schedule, const Shape& shape) {
  if (shape.data_parallel == 1) return {};
  if (shape.data_parallel < 1) {
    return tl::unexpected(
        fmt::format("data_parallel: expected a number of at least 1, got {}", shape.data_parallel));
  }
  if (takes(schedule, "replicas")) {
    return tl::unexpected(
        fmt::format("data_parallel: {} has replicas of its own; give `replicas` instead", schedule.name));
  }
  const std::int32_t left_over = shape.microbatches % shape.data_parallel;
  if (left_over == 0) return {};
  const std::int32_t below = shape.microbatches - left_over;
  return tl::unexpected(fmt::format(
      "microbatches: {} do not divide among {} copies of the pipeline; the nearest that work: {}{}",
      shape.microbatches, shape.data_parallel, below > 0 ? fmt::format("{} and ", below) : "",
      below + shape.data_parallel));
}

/// What one copy of the pipeline is generated for.
Shape of_one_copy(const ScheduleInfo& schedule, Shape shape) {
  shape.microbatches /= shape.data_parallel;
  if (!takes(schedule, "replica_sync")) shape.replica_sync = ReplicaSync::on;
  if (!takes(schedule, "reduction")) shape.reduction = Reduction::overlapped;
  shape.data_parallel = 1;
  shape.buckets.clear();
  shape.sharding = 0;
  return shape;
}

}  // namespace

std::int32_t chunks_of(const ScheduleInfo& schedule, const Shape& shape) {
  return schedule.chunks > 0 ? schedule.chunks : shape.virtual_stages;
}

std::int64_t claimed_peak(const ScheduleInfo& schedule, const Shape& shape, std::int32_t rank) {
  return schedule.peak_activations(of_one_copy(schedule, shape), rank / shape.data_parallel);
}

namespace {

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
  if (auto options = check_options(*schedule, shape); !options) return tl::unexpected(options.error());
  if (auto copies = check_copies(*schedule, shape); !copies) return tl::unexpected(copies.error());
  if (auto counts = check_counts(*schedule, shape); !counts) return tl::unexpected(counts.error());
  Asked asked{.schedule = schedule, .shape = shape};
  asked.shape.virtual_stages = chunks_of(*schedule, shape);
  if (auto size = check_size(asked.shape); !size) return tl::unexpected(size.error());
  return asked;
}

bool has_passes_over_it(const Shape& shape) {
  return shape.data_parallel > 1 || !shape.buckets.empty() || shape.sharding > 0 ||
         shape.checkpoint != Checkpoint::never;
}

}  // namespace

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
  if (!pipeline || shape.sharding == 0) return pipeline;
  return shard_stages(*pipeline, shape.sharding);
}

}  // namespace

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
  return stages_of(complete) * units_of(complete) * 2;
}

}  // namespace penstock
