// Computes the values that a scenario does not state: missing batch sizes, and the cluster for a number of
// ranks. The rule of the batch is
//
//   global_batch_size = micro_batch_size * microbatches      (synchronous schedules)
//   global_batch_size = micro_batch_size                     (asynchronous: each microbatch updates)

#include "scenarios/read/scenario.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/rules/generators.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace penstock {

namespace {

using Count = std::int64_t;

constexpr std::string_view kMicroBatchKey = "training.micro_batch_size";
constexpr std::string_view kGlobalBatchKey = "training.global_batch_size";
constexpr std::string_view kMicrobatchesKey = "schedule.microbatches";

tl::expected<void, std::string> check_positive(const Batch& batch) {
  for (const auto& [name, value] : {std::pair{kMicroBatchKey, batch.micro_batch_size},
                                    std::pair{kGlobalBatchKey, batch.global_batch_size},
                                    std::pair{kMicrobatchesKey, batch.microbatches}}) {
    if (value && *value < 1) {
      return tl::unexpected(fmt::format("{}: expected a number of at least 1, got {}", name, *value));
    }
  }
  return {};
}

/// Returns global / divisor. The error names the nearest multiples on both sides, because the user wants a
/// number near the stated one.
tl::expected<Count, std::string> divide(Count global, Count divisor, std::string_view divisor_name) {
  if (global % divisor == 0) return global / divisor;
  const Count below = global / divisor * divisor;
  const std::string nearest =
      below > 0 ? fmt::format("{} or {}", below, below + divisor) : fmt::format("{}", divisor);
  return tl::unexpected(fmt::format("{} {} is not a multiple of {} {}; the nearest that are: {}",
                                    kGlobalBatchKey, global, divisor_name, divisor, nearest));
}

/// Returns the sizes if micro batch size times number of microbatches equals the global batch size. The
/// check divides, because a product may exceed 64 bits.
tl::expected<ResolvedBatch, std::string> agreed(Count micro, Count global, Count microbatches) {
  if (global % microbatches != 0 || global / microbatches != micro) {
    return tl::unexpected(
        fmt::format("{} {} x {} {} do not make {} {}: all three must agree, or leave one out", kMicroBatchKey,
                    micro, kMicrobatchesKey, microbatches, kGlobalBatchKey, global));
  }
  return ResolvedBatch{.micro_batch_size = micro, .microbatches = static_cast<std::int32_t>(microbatches)};
}

tl::unexpected<std::string> unknown_microbatches(const Batch& batch) {
  if (batch.global_batch_size) {
    return tl::unexpected(
        fmt::format("{} {} alone does not say the number of microbatches: give {} or {} as well",
                    kGlobalBatchKey, *batch.global_batch_size, kMicrobatchesKey, kMicroBatchKey));
  }
  return tl::unexpected(fmt::format("{} is missing: expected it, or both {} and {}", kMicrobatchesKey,
                                    kGlobalBatchKey, kMicroBatchKey));
}

/// Computes the missing sizes by the rule of synchronous schedules. If M (microbatches) is not stated, it is
/// G / m. If m (the microbatch size) is not stated, it is G / M, or 1 if the global batch size G is not
/// stated either.
tl::expected<ResolvedBatch, std::string> resolve_parts(const Batch& batch) {
  if (!batch.microbatches) {
    if (!batch.global_batch_size || !batch.micro_batch_size) return unknown_microbatches(batch);
    const auto microbatches = divide(*batch.global_batch_size, *batch.micro_batch_size, kMicroBatchKey);
    if (!microbatches) return tl::unexpected(microbatches.error());
    Batch whole = batch;
    whole.microbatches = *microbatches;
    // resolve_batch() is called again, because the quotient may exceed the allowed number of microbatches.
    return resolve_batch(whole, MicrobatchMeaning::part_of_minibatch);
  }
  const Count microbatches = *batch.microbatches;
  if (batch.global_batch_size && batch.micro_batch_size) {
    return agreed(*batch.micro_batch_size, *batch.global_batch_size, microbatches);
  }
  Count micro = batch.micro_batch_size.value_or(1);
  if (batch.global_batch_size) {
    const auto divided = divide(*batch.global_batch_size, microbatches, kMicrobatchesKey);
    if (!divided) return tl::unexpected(divided.error());
    micro = *divided;
  }
  return ResolvedBatch{.micro_batch_size = micro, .microbatches = static_cast<std::int32_t>(microbatches)};
}

/// Computes the missing size by the rule of asynchronous schedules. The microbatch is the whole minibatch, so
/// both sizes are equal. The number of microbatches must be stated.
tl::expected<ResolvedBatch, std::string> resolve_minibatches(const Batch& batch) {
  if (batch.micro_batch_size && batch.global_batch_size &&
      *batch.micro_batch_size != *batch.global_batch_size) {
    return tl::unexpected(
        fmt::format("{} {} and {} {} differ: in an asynchronous schedule each microbatch is a minibatch with "
                    "an update of its own, so both mean the same; leave one out",
                    kMicroBatchKey, *batch.micro_batch_size, kGlobalBatchKey, *batch.global_batch_size));
  }
  if (!batch.microbatches) {
    return tl::unexpected(
        fmt::format("{} is missing: in an asynchronous schedule it is the number of minibatches to run and "
                    "follows from no size",
                    kMicrobatchesKey));
  }
  return ResolvedBatch{
      .micro_batch_size = batch.micro_batch_size.value_or(batch.global_batch_size.value_or(1)),
      .microbatches = static_cast<std::int32_t>(*batch.microbatches)};
}

/// Removes the batch size that `stated` does not contain. Both sizes mean the same in an asynchronous
/// schedule, so the stated one decides.
Batch with_one_size(Batch batch, const Batch& stated) {
  if (stated.micro_batch_size && !stated.global_batch_size) batch.global_batch_size.reset();
  if (stated.global_batch_size && !stated.micro_batch_size) batch.micro_batch_size.reset();
  return batch;
}

}  // namespace

MicrobatchMeaning meaning_of_microbatch(std::string_view name) {
  const ScheduleInfo* schedule = find_schedule(name);
  return schedule != nullptr && schedule->asynchronous ? MicrobatchMeaning::whole_minibatch
                                                       : MicrobatchMeaning::part_of_minibatch;
}

Batch overridden(const Batch& own, const Batch& stated, MicrobatchMeaning meaning) {
  Batch batch = own;
  if (stated.micro_batch_size) batch.micro_batch_size = stated.micro_batch_size;
  if (stated.global_batch_size) batch.global_batch_size = stated.global_batch_size;
  if (stated.microbatches) batch.microbatches = stated.microbatches;
  if (meaning == MicrobatchMeaning::whole_minibatch) return with_one_size(batch, stated);
  const bool all_three = batch.micro_batch_size && batch.global_batch_size && batch.microbatches;
  const bool none_stated = !stated.micro_batch_size && !stated.global_batch_size && !stated.microbatches;
  if (!all_three || none_stated) return batch;
  // The three figures agreed before one of them was changed, so another one must be computed again. It is the
  // number of microbatches, unless the user states this number.
  if (!stated.microbatches) {
    batch.microbatches.reset();
  } else if (!stated.micro_batch_size) {
    batch.micro_batch_size.reset();
  } else if (!stated.global_batch_size) {
    batch.global_batch_size.reset();
  }
  return batch;
}

tl::expected<ResolvedBatch, std::string> resolve_batch(const Batch& batch, MicrobatchMeaning meaning) {
  if (auto checked = check_positive(batch); !checked) return tl::unexpected(checked.error());
  const Count microbatches = batch.microbatches.value_or(1);
  constexpr Count kMost = std::numeric_limits<std::int32_t>::max();
  if (microbatches > kMost) {
    return tl::unexpected(
        fmt::format("{}: expected at most {}, got {}", kMicrobatchesKey, kMost, microbatches));
  }
  switch (meaning) {
    case MicrobatchMeaning::part_of_minibatch:
      return resolve_parts(batch);
    case MicrobatchMeaning::whole_minibatch:
      return resolve_minibatches(batch);
  }
  return ResolvedBatch{};
}

std::optional<std::int64_t> micro_batch_size_of(const Batch& batch, MicrobatchMeaning meaning) {
  if (batch.micro_batch_size) return batch.micro_batch_size;
  if (!batch.global_batch_size) return 1;
  if (meaning == MicrobatchMeaning::whole_minibatch) return batch.global_batch_size;
  const bool divides =
      batch.microbatches && *batch.microbatches > 0 && *batch.global_batch_size % *batch.microbatches == 0;
  if (!divides) return std::nullopt;
  return *batch.global_batch_size / *batch.microbatches;
}

tl::expected<std::optional<std::int64_t>, std::string> global_batch_size_of(const Batch& batch,
                                                                            MicrobatchMeaning meaning) {
  if (batch.global_batch_size) return batch.global_batch_size;
  if (meaning == MicrobatchMeaning::whole_minibatch) return batch.micro_batch_size;
  if (!batch.microbatches) return std::nullopt;
  const Count micro = batch.micro_batch_size.value_or(1);
  Count global = 0;
  if (!__builtin_mul_overflow(micro, *batch.microbatches, &global)) return global;
  return tl::unexpected(fmt::format("{} {} x {} {} are more than 2^63 samples; take fewer", kMicroBatchKey,
                                    micro, kMicrobatchesKey, *batch.microbatches));
}

tl::expected<Batch, std::string> batch_of_copy(Batch batch, std::int32_t copies) {
  // If no size is stated, a microbatch has one sample. If the global batch G and the number of microbatches M
  // are stated, a microbatch has G / (M * copies) samples.
  const bool follows = batch.global_batch_size && batch.microbatches;
  if (!batch.micro_batch_size && !follows) batch.micro_batch_size = 1;
  if (!batch.global_batch_size) return batch;
  const std::int64_t part = batch.micro_batch_size.value_or(1) * copies;
  if (*batch.global_batch_size % part != 0) {
    return tl::unexpected(
        fmt::format("training.global_batch_size: expected a multiple of micro_batch_size {} x {} copies of "
                    "the pipeline = {}, got {}",
                    batch.micro_batch_size.value_or(1), copies, part, *batch.global_batch_size));
  }
  *batch.global_batch_size /= copies;
  return batch;
}

// Builds a cluster from its spec. The spec contains what the file states: a preset with its numbers, or a
// list of links. Planning and calibration use only these numbers. Other code needs devices and routes, which
// the builders in topology/ create.

namespace {

/// A visitor that builds the cluster from its shape. A uniform cluster without a number of devices gets one
/// device for each of `ranks` ranks.
struct Build {
  std::int32_t ranks;

  tl::expected<Cluster, std::string> operator()(UniformCluster shape) const {
    if (shape.devices == 0) shape.devices = ranks;
    return uniform_cluster(shape);
  }
  tl::expected<Cluster, std::string> operator()(const TwoLevelCluster& shape) const {
    return two_level_cluster(shape);
  }
  tl::expected<Cluster, std::string> operator()(const Cluster& cluster) const { return cluster; }
};

}  // namespace

ClusterSpec built_once(ClusterSpec spec) {
  const auto* uniform = std::get_if<UniformCluster>(&spec.shape);
  // A cluster without a number of devices gets one for each rank, but the number of ranks is not known here.
  if (uniform != nullptr && uniform->devices == 0) return spec;
  if (auto cluster = std::visit(Build{0}, spec.shape)) spec.built = *std::move(cluster);
  return spec;
}

tl::expected<Cluster, std::string> build_cluster(const ClusterSpec& spec, std::int32_t ranks) {
  // It is no error if a cluster has more devices than ranks. The remaining devices are idle.
  auto cluster = spec.built ? *spec.built : std::visit(Build{ranks}, spec.shape);
  if (cluster && cluster->device_count() < ranks) {
    return tl::unexpected(
        fmt::format("cluster: the program has {} ranks, the cluster ({}) only {} device{}; one rank "
                    "needs one device, so add devices or take fewer ranks",
                    ranks, spec.name, cluster->device_count(), cluster->device_count() == 1 ? "" : "s"));
  }
  return cluster;
}

}  // namespace penstock
