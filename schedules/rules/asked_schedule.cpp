// Checks a shape before a schedule's rule uses it. A shape holds the counts and options that a user sets
// for a schedule, such as K, v and M. The check fails if the user sets an option that the schedule does
// not have. Counts are multiplied in floating point, because the product may be too large for an integer.
// Each rule checks its own conditions on K, v and M. Tested by conformance_test.cpp.

#include "schedules/rules/asked_schedule.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

namespace {

/// Returns an upper bound on the number of stages of the program. Stages may be cut into different numbers
/// of buckets. The bound uses the largest of these numbers for all stages.
double stages_of(const Shape& shape) {
  const double most_buckets = shape.buckets.empty() ? 1 : std::max(1, std::ranges::max(shape.buckets));
  return static_cast<double>(shape.stages) * shape.virtual_stages * most_buckets;
}
/// Returns the number of ranks, including all replicas of stages and all copies of the pipeline.
double ranks_of(const Shape& shape) {
  const double stages = shape.stages;
  if (shape.replicas.empty()) return stages * shape.data_parallel;
  if (shape.replicas.size() == 1) return stages * shape.replicas.front();
  return std::accumulate(shape.replicas.begin(), shape.replicas.end(), 0.0);
}
double units_of(const Shape& shape) {
  return static_cast<double>(shape.microbatches) * shape.iterations * shape.slices;
}

/// The scenario keys that belong to the option "effort".
constexpr std::array<std::string_view, 3> kEffortKeys = {"passes", "seed", "budget"};

/// Returns the option of a schedule to which this scenario key belongs.
std::string_view option_of(std::string_view key) {
  return std::ranges::find(kEffortKeys, key) == kEffortKeys.end() ? key : "effort";
}

/// Returns the scenario keys of the options that the schedule has, as text for a message.
std::string keys_of(const ScheduleInfo& schedule) {
  if (schedule.options.empty()) return "no such option";
  return fmt::format("{}", fmt::join(option_keys(schedule), ", "));
}

/// Returns the scenario keys of the options whose values differ from the defaults.
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
  // A time budget also changes the number of passes. In this case the passes do not count as set by the user.
  const bool budget = shape.effort.budget_seconds != defaults.effort.budget_seconds;
  note("budget", budget);
  note("passes", !budget && shape.effort.passes != defaults.effort.passes);
  note("seed", shape.effort.seed != defaults.effort.seed);
  note("objective", shape.objective != defaults.objective);
  note("placement", shape.placement != defaults.placement);
  note("offload", shape.offload != defaults.offload);
  return given;
}

/// Rejects numbers that are too small and lists with a wrong number of entries.
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
  const std::int32_t sharding = shape.sharding.value_or(0);
  if (sharding < 0 || sharding > 3) {
    return tl::unexpected(fmt::format("sharding: expected a ZeRO stage, 0 (none) to 3, got {}", sharding));
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

/// Rejects expert_overlap for schedules without overlapped pairs of F and B. Also rejects it if the F and
/// the B of a pair would wait for each other.
tl::expected<void, std::string> check_expert_overlap(const ScheduleInfo& schedule, const Shape& shape) {
  if (!shape.expert_overlap) return {};
  if (shape.passes != Passes::both) {
    return tl::unexpected(std::string(
        "parallel.expert_overlap: a program of forward passes alone has no pairs of F and B; leave it out"));
  }
  if (shape.checkpoint != Checkpoint::never) {
    return tl::unexpected(std::string(
        "parallel.expert_overlap: a pair of F and B has no place for R; leave schedule.checkpoint out"));
  }
  const std::string_view name = schedule.name;
  if (schedule.has_pairs || name == "interleaved") return {};
  if (name == "1f1b" && shape.stages == 1 && shape.warmup.empty()) return {};
  return tl::unexpected(
      fmt::format("parallel.expert_overlap: {} on {} ranks has no pairs of F and B that can overlap; take "
                  "ep-1f1b, interleaved, dualpipe, dualpipe-v, or 1f1b on one rank",
                  name, shape.stages));
}

/// Rejects shares outside 0 to 1 and lists of a wrong length. Also rejects shares if other options leave no
/// activation to offload.
tl::expected<void, std::string> check_offload(const Shape& shape) {
  if (shape.offload.empty()) return {};
  const auto refused = [](std::string why) { return tl::unexpected("offload: " + std::move(why)); };
  for (const double share : shape.offload) {
    if (!(share >= 0 && share <= 1))
      return refused(fmt::format("expected none, or a share from 0 to 1, got {}", share));
  }
  const auto stages = static_cast<std::size_t>(shape.stages);
  if (shape.offload.size() > 1 && shape.offload.size() != stages) {
    return refused(
        fmt::format("expected one share or {}, one a rank, got {} numbers", stages, shape.offload.size()));
  }
  if (shape.offload.size() > 1 && !shape.replicas.empty())
    return refused("expected one share for all ranks beside `replicas`, got a list");
  if (shape.passes != Passes::both)
    return refused("a program of forward passes alone keeps no activations; leave it out");
  if (shape.checkpoint != Checkpoint::never) {
    return refused(
        "a microbatch that is recomputed keeps only its stage's input; leave offload out, or checkpoint and "
        "recompute");
  }
  return {};
}

/// Returns the names of the schedules that also exist without backward passes, as text for a message. The
/// forward passes of these schedules alone form a complete order.
std::string names_with_forward_half() {
  std::vector<std::string_view> names;
  for (const ScheduleInfo& schedule : schedule_table()) {
    if (schedule.has_forward_half) names.push_back(schedule.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Rejects a program without backwards if the schedule defines no order for forwards alone. Also rejects it
/// if an option concerns backward passes or updates.
tl::expected<void, std::string> check_forward_only(const ScheduleInfo& schedule, const Shape& shape) {
  if (shape.passes == Passes::both) return {};
  const auto refused = [](std::string why) { return tl::unexpected("forward_only: " + std::move(why)); };
  if (!schedule.has_forward_half) {
    return refused(
        fmt::format("{} orders backward passes, and says nothing about a program without them; take "
                    "one of {}",
                    schedule.name, names_with_forward_half()));
  }
  if (shape.checkpoint != Checkpoint::never)
    return refused("there is no backward pass to recompute for; leave checkpoint and recompute out");
  if (shape.update != UpdateRule::minibatch)
    return refused("there is no update of weights; leave `update` out");
  if (!shape.buckets.empty())
    return refused("there are no gradients to reduce in buckets; leave buckets out");
  if (const std::int32_t sharding = shape.sharding.value_or(0); sharding == 1 || sharding == 2) {
    return refused(fmt::format(
        "sharding {} shares {} out, which are not there; take 3, which shares the weights, or leave it out",
        sharding, sharding == 1 ? "the optimizer's state" : "gradients"));
  }
  return {};
}

/// Rejects options that the schedule does not have. With several copies of the pipeline, `replica_sync` and
/// `reduction` are always allowed.
tl::expected<void, std::string> check_options(const ScheduleInfo& schedule, const Shape& shape) {
  for (const std::string_view key : given_options(shape)) {
    const bool of_copies = shape.data_parallel > 1 && (key == "replica_sync" || key == "reduction");
    if (of_copies || takes_option(schedule, option_of(key))) continue;
    return tl::unexpected(
        fmt::format("{}: {} does not take it; it takes {}", key, schedule.name, keys_of(schedule)));
  }
  return {};
}

/// Rejects copies of the pipeline if the microbatches cannot be divided evenly among them, or if the schedule
/// has its own replicas.
tl::expected<void, std::string> check_copies(const ScheduleInfo& schedule, const Shape& shape) {
  if (shape.data_parallel == 1) return {};
  if (shape.data_parallel < 1) {
    return tl::unexpected(
        fmt::format("data_parallel: expected a number of at least 1, got {}", shape.data_parallel));
  }
  if (copies_are_replicas(schedule)) {
    return tl::unexpected(
        fmt::format("data_parallel: {} has replicas of its own; give `replicas` instead", schedule.name));
  }
  if (!shape.replicas.empty()) {
    return tl::unexpected(std::string(
        "data_parallel: copies of a pipeline cannot have replicas of stages as well; give `replicas` or "
        "`data_parallel`"));
  }
  const std::int32_t left_over = shape.microbatches % shape.data_parallel;
  if (left_over == 0) return {};
  const std::int32_t below = shape.microbatches - left_over;
  return tl::unexpected(fmt::format(
      "microbatches: {} do not divide among {} copies of the pipeline; the nearest that work: {}{}",
      shape.microbatches, shape.data_parallel, below > 0 ? fmt::format("{} and ", below) : "",
      below + shape.data_parallel));
}

}  // namespace

std::vector<std::string_view> option_keys(const ScheduleInfo& schedule) {
  std::vector<std::string_view> keys;
  for (const std::string_view option : schedule.options) {
    if (option == "effort") {
      keys.insert(keys.end(), kEffortKeys.begin(), kEffortKeys.end());
    } else {
      keys.push_back(option);
    }
  }
  return keys;
}

bool takes_option(const ScheduleInfo& schedule, std::string_view option) {
  return std::ranges::find(schedule.options, option) != schedule.options.end();
}

bool takes_chunks(const ScheduleInfo& schedule) {
  return schedule.chunks == 0 && takes_option(schedule, "virtual_stages");
}

double compute_actions_of(const Shape& shape) {
  return stages_of(shape) * units_of(shape) * (shape.passes == Passes::both ? 2 : 1);
}

tl::expected<void, std::string> check_possible_size(const Shape& shape) {
  constexpr double kMostActions = 1LL << 40;
  constexpr double kMostNumber = std::numeric_limits<std::int32_t>::max();
  const double ranks = ranks_of(shape);
  const double model_stages = stages_of(shape);
  const double microbatches = units_of(shape);
  const double actions = compute_actions_of(shape);
  if (actions > kMostActions || model_stages > kMostNumber || microbatches > kMostNumber ||
      ranks > kMostNumber) {
    return tl::unexpected(
        fmt::format("an impossible shape: {} stages x {} microbatches x {} iterations are {:.3g} compute "
                    "actions, more than 2^40, or a number above 2^31; take fewer",
                    model_stages, shape.microbatches, shape.iterations, actions));
  }
  return {};
}

tl::expected<void, std::string> check_stored_size(const Shape& shape) {
  // Each action has up to four list entries, which are numbered with 32 bits.
  constexpr double kMostNumberedActions = 1LL << 29;
  const double actions = compute_actions_of(shape);
  if (actions <= kMostNumberedActions) return {};
  return tl::unexpected(fmt::format(
      "a shape of {:.3g} compute actions is too large: the engines number at most 2^29 of them; take fewer "
      "stages, microbatches or iterations, or simulate it without a timeline",
      actions));
}

bool copies_are_replicas(const ScheduleInfo& schedule) {
  return schedule.asynchronous || schedule.name == "data-parallel";
}

tl::expected<void, std::string> check_given(const ScheduleInfo& schedule, const Shape& shape) {
  return check_options(schedule, shape)
      .and_then([&] { return check_expert_overlap(schedule, shape); })
      .and_then([&] { return check_forward_only(schedule, shape); })
      .and_then([&] { return check_offload(shape); })
      .and_then([&] { return check_copies(schedule, shape); })
      .and_then([&] { return check_counts(schedule, shape); });
}

tl::expected<AskedSchedule, std::string> asked_schedule(std::string_view name, const Shape& shape) {
  const ScheduleInfo* schedule = find_schedule(name);
  if (schedule == nullptr) return tl::unexpected("schedule: " + unknown_schedule(name));
  if (auto given = check_given(*schedule, shape); !given) return tl::unexpected(given.error());
  AskedSchedule asked{.schedule = schedule, .shape = shape};
  asked.shape.virtual_stages = chunks_of(*schedule, shape);
  if (auto size = check_possible_size(asked.shape); !size) return tl::unexpected(size.error());
  return asked;
}

}  // namespace penstock
