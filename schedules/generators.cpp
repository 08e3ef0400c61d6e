// The table of schedules, and what is checked for all of them before a generator is asked.

#include "schedules/generators.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "schedules/nearest_name.hpp"
#include "schedules/program_parts.hpp"

namespace penstock {
namespace {

std::int64_t one_microbatch(const Shape&, std::int32_t) { return 1; }
std::int64_t all_microbatches(const Shape& shape, std::int32_t) { return shape.microbatches; }

std::int64_t one_f_one_b_peak(const Shape& shape, std::int32_t rank) {
  return std::min(shape.microbatches, warmup_of(shape, rank, shape.stages - 1 - rank) + 1);
}

std::int64_t stages_of_one_microbatch(const Shape& shape, std::int32_t) { return shape.stages; }

std::int64_t one_f_one_b_rr_peak(const Shape& shape, std::int32_t rank) {
  std::int32_t workers = 0;
  const auto replicas = [&](std::int32_t stage) {
    if (shape.replicas.empty()) return 1;
    return shape.replicas.size() == 1 ? shape.replicas.front()
                                      : shape.replicas[static_cast<std::size_t>(stage)];
  };
  for (std::int32_t stage = 0; stage < shape.stages; ++stage) workers += replicas(stage);
  std::int32_t stage = 0;
  std::int32_t before = 0;
  while (before + replicas(stage) <= rank) before += replicas(stage++);
  return warmup_of(shape, stage, (workers - 1 - before) / replicas(stage)) + 1;
}

std::int64_t interleaved_peak(const Shape& shape, std::int32_t rank) {
  const std::int32_t round = shape.microbatches / std::max(1, shape.microbatches / shape.stages);
  return std::min(shape.microbatches * shape.virtual_stages,
                  (shape.virtual_stages - 1) * round + 2 * (shape.stages - 1 - rank) + 1);
}

std::int64_t zb_h1_peak(const Shape& shape, std::int32_t) {
  return std::min(shape.microbatches, shape.stages);
}

const std::vector<ScheduleInfo>& table() {
  static const std::vector<ScheduleInfo> rows = {
      {.name = "naive",
       .aliases = {"model-parallel"},
       .summary = "one microbatch at a time through all stages",
       .constraint = "any K and M",
       .options = {"update", "checkpoint", "recompute"},
       .generate = naive,
       .peak_activations = one_microbatch},
      {.name = "gpipe",
       .aliases = {"ScheduleGPipe", "fill-drain"},
       .summary = "all forwards, then all backwards (GPipe)",
       .constraint = "any K and M",
       .options = {"backward_order", "checkpoint", "recompute"},
       .generate = gpipe,
       .peak_activations = all_microbatches},
      {.name = "1f1b",
       .aliases = {"Schedule1F1B", "pipedream-flush", "dapple"},
       .summary = "one forward, one backward, with a flush (PipeDream-Flush, DAPPLE, Megatron)",
       .constraint = "any K and M",
       .options = {"warmup", "checkpoint", "recompute"},
       .generate = one_f_one_b,
       .peak_activations = one_f_one_b_peak},
      {.name = "1f1b-rr",
       .aliases = {"pipedream", "1f1b-round-robin"},
       .summary = "asynchronous 1F1B with replicated stages and weight stashing (PipeDream)",
       .constraint = "replicas of a stage must get equal numbers of minibatches unless replica_sync is off",
       .options = {"replicas", "warmup", "routing", "weights", "replica_sync"},
       .asynchronous = true,
       .generate = one_f_one_b_rr,
       .peak_activations = one_f_one_b_rr_peak},
      {.name = "data-parallel",
       .aliases = {"dp", "ddp"},
       .summary = "every stage on every rank, gradients reduced in one bucket a stage",
       .constraint = "any; replicas (default K) is the number of ranks",
       .options = {"replicas", "reduction", "replica_sync"},
       .generate = data_parallel,
       .peak_activations = stages_of_one_microbatch},
      {.name = "interleaved",
       .aliases = {"Interleaved1F1B", "ScheduleInterleaved1F1B", "interleaved-1f1b"},
       .summary = "1F1B over v model chunks a rank (Megatron, PyTorch's rounds)",
       .constraint = "M a multiple of max(1, floor(M/K))",
       .options = {"virtual_stages", "checkpoint", "recompute"},
       .generate = interleaved,
       .peak_activations = interleaved_peak},
      {.name = "zb-h1",
       .aliases = {"zero-bubble-h1"},
       .summary = "1F1B with split backwards, W delayed into the drain (Zero Bubble)",
       .constraint = "any K and M",
       .options = {"checkpoint", "recompute"},
       .generate = zb_h1,
       .peak_activations = zb_h1_peak},
  };
  return rows;
}

std::string plain(std::string_view name) {
  std::string letters;
  for (const char c : name) {
    if (c != '-' && c != '_')
      letters.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  }
  return letters;
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
  return given;
}

tl::expected<void, std::string> check_counts(const ScheduleInfo& schedule, const Shape& shape) {
  const auto at_least_one = [](std::string_view key, std::int64_t count) -> tl::expected<void, std::string> {
    if (count >= 1) return {};
    return tl::unexpected(fmt::format("{}: expected a number of at least 1, got {}", key, count));
  };
  for (const auto& [key, count] :
       {std::pair{"stages", shape.stages}, std::pair{"microbatches", shape.microbatches},
        std::pair{"virtual_stages", shape.virtual_stages}, std::pair{"iterations", shape.iterations}}) {
    if (auto checked = at_least_one(key, count); !checked) return checked;
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

/// Refuses what no machine could hold before anything is allocated.
tl::expected<void, std::string> check_size(const Shape& shape) {
  constexpr double kMostActions = 1LL << 40;
  constexpr double kMostNumber = std::numeric_limits<std::int32_t>::max();
  const double model_stages = static_cast<double>(shape.stages) * shape.virtual_stages;
  const double microbatches = static_cast<double>(shape.microbatches) * shape.iterations;
  const double actions = model_stages * microbatches * 2;
  if (actions > kMostActions || model_stages > kMostNumber || microbatches > kMostNumber) {
    return tl::unexpected(
        fmt::format("an impossible shape: {} stages x {} microbatches x {} iterations are {:.3g} compute "
                    "actions, more than "
                    "2^40, or a number above 2^31; take fewer",
                    model_stages, shape.microbatches, shape.iterations, actions));
  }
  return {};
}

}  // namespace

std::span<const ScheduleInfo> schedule_table() { return table(); }

const ScheduleInfo* find_schedule(std::string_view name) {
  const std::string wanted = plain(name);
  for (const ScheduleInfo& row : table()) {
    if (plain(row.name) == wanted) return &row;
    for (const std::string_view alias : row.aliases) {
      if (plain(alias) == wanted) return &row;
    }
  }
  return nullptr;
}

Generated generate(std::string_view name, const Shape& shape) {
  const ScheduleInfo* schedule = find_schedule(name);
  if (schedule == nullptr) {
    std::vector<std::string_view> names;
    for (const ScheduleInfo& row : table()) names.push_back(row.name);
    return tl::unexpected(fmt::format("schedule: unknown schedule '{}'; did you mean '{}'? Known: {}", name,
                                      nearest_name(name, names), fmt::join(names, ", ")));
  }
  for (const std::string_view key : given_options(shape)) {
    if (std::ranges::find(schedule->options, key) == schedule->options.end()) {
      return tl::unexpected(fmt::format("{}: {} does not take it; it takes {}", key, schedule->name,
                                        fmt::join(schedule->options, ", ")));
    }
  }
  if (auto checked = check_counts(*schedule, shape); !checked) return tl::unexpected(checked.error());
  if (auto checked = check_size(shape); !checked) return tl::unexpected(checked.error());
  return schedule->generate(shape);
}

}  // namespace penstock
