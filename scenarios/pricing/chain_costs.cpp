// Converts prices to the costs that an engine reads. Prices (stage_prices.hpp) are seconds and bytes in
// floating point. Costs are nanoseconds and bytes as 64-bit integers:
//
//   price of a stage for a microbatch ->  F, B, I, W, R and their memory
//   price of a rank's step            ->  STEP, divided among the rank's stages, plus their deferred work
//
// Tested by pricing_test.cpp.

#include "scenarios/pricing/chain_costs.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/stage_prices.hpp"
#include "scenarios/pricing/workload.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {

namespace {

// Both functions round to the nearest integer. chain_fault() has already refused figures that are too large.
Ns nanoseconds(double seconds) { return static_cast<Ns>(std::llround(seconds * kNanosecondsPerSecond)); }
/// The seconds that an action takes in addition to its kernels. Because of them, chunks of one or two layers
/// cost more for each layer than large stages. A fit to MLPerf's results on H100 in fp8 gives 0.06 ms, and a
/// fit to the DGX Cloud recipes in fp8 gives 0.19 ms.
constexpr double kActionSeconds = 0.1e-3;
/// The seconds that an action takes in addition under old Megatron-LM, which synchronizes with the device
/// after each exchange of messages. The value is fitted to the 24 steps of the zero-bubble paper (Qi et al.,
/// ICLR'24, table 4), and to no other measurement.
constexpr double kOldActionSeconds = 1.2e-3;

Bytes whole_bytes(double bytes) { return static_cast<Bytes>(std::llround(bytes)); }

}  // namespace

std::optional<std::string> chain_fault(std::span<const StagePrice> prices, const RankStep& step,
                                       std::int64_t microbatches) {
  // The limit is less than half of the largest 64-bit number, because chain_costs() adds two such figures.
  constexpr double kMost = 4e18;
  const auto all = static_cast<double>(microbatches);
  PartSum times;  // nanoseconds
  PartSum sizes;
  const auto add_time = [&](const char* form, std::size_t stage, double seconds, double count) {
    times.add(form, stage, seconds * kNanosecondsPerSecond, count);
  };
  add_time("STEP", 0, step.total_s(), 1);
  // Weights need no check, because the reader refuses models of more than 2^58 parameters.
  for (std::size_t i = 0; i < prices.size(); ++i) {
    const StagePrice& price = prices[i];
    add_time("{}F", i, price.forward_s, 1);
    add_time("{}B", i, price.backward_input_s + price.backward_weight_s, 1);
    add_time("the beginning of actions of stage {}", i, price.action_seconds, 3);
    add_time("what stage {} puts off to its STEP", i, price.deferred_s, all);
    sizes.add("kept of stage {}", i, price.kept_bytes, 1);
    sizes.add("recomputed of stage {}", i, price.recomputed_bytes, 1);
    sizes.add("transient of stage {}", i, price.transient_bytes, 1);
    sizes.add("activation of edge {}", i, price.edge_bytes, 1);
    sizes.add("gradients of stage {}", i, price.gradient_bytes, 1);
    sizes.add("optimizer state of stage {}", i, price.optimizer_bytes, 1);
    sizes.add("what stage {} puts off to its STEP", i, price.deferred_bytes, all);
  }
  const bool fits_times = times.most() < kMost;
  if (fits_times && sizes.most() < kMost) return std::nullopt;
  return fmt::format(
      "model: a stage takes {:.3g} s and holds {:.3g} bytes for one microbatch, which is beyond 64 bits: {}; "
      "take a shorter sequence or fewer samples",
      times.most() * kSecondsPerNanosecond, sizes.most(), fits_times ? sizes.largest() : times.longest());
}

CostTable chain_costs(std::span<const StagePrice> prices, std::span<const std::int32_t> rank_of_stage,
                      const RankStep& step, std::int64_t microbatches) {
  const auto all = static_cast<double>(microbatches);
  CostTable costs;
  costs.stages.reserve(prices.size());
  for (std::size_t i = 0; i < prices.size(); ++i) {
    const StagePrice& price = prices[i];
    StageCost& cost = costs.stages.emplace_back();
    const Ns each = action_ns(price.action_seconds);
    cost.forward_ns = nanoseconds(price.forward_s) + each;
    // R computes a whole stage again (schedule.checkpoint). The recomputation of single layers
    // (training.recompute) is already part of the backward pass.
    cost.recompute_ns = cost.forward_ns;
    cost.backward_input_ns = nanoseconds(price.backward_input_s) + each;
    cost.backward_weight_ns = nanoseconds(price.backward_weight_s) + each;
    // The parts are rounded first, so that B computes exactly as long as I and W together.
    cost.backward_ns = cost.backward_input_ns + cost.backward_weight_ns - each;
    cost.pair_hidden_ns = nanoseconds(price.pair_hidden_s);
    // The step of a rank is divided among the stages that it updates. The deferred work of a stage is added
    // to its part.
    cost.step_ns = nanoseconds(step.total_s()) / std::ranges::count(rank_of_stage, rank_of_stage[i]) +
                   nanoseconds(price.deferred_s * all);
    cost.kept = whole_bytes(price.kept_bytes);
    cost.released_by_input = std::min(cost.kept, whole_bytes(price.released_by_input));
    cost.weights = whole_bytes(price.weight_bytes);
    cost.gradients = whole_bytes(price.gradient_bytes);
    cost.optimizer_state = whole_bytes(price.optimizer_bytes);
    cost.transient = whole_bytes(price.transient_bytes + price.deferred_bytes * all);
    cost.recomputed = whole_bytes(price.recomputed_bytes);
    cost.recomputed_at_once = whole_bytes(price.recomputed_at_once);
    // A chain has one edge fewer than stages.
    if (i + 1 == prices.size()) break;
    costs.edges.push_back(
        {.activation = whole_bytes(price.edge_bytes), .gradient = whole_bytes(price.edge_bytes)});
  }
  return costs;
}

double usual_action_seconds(Framework framework) {
  return framework == Framework::megatron_2021 ? kOldActionSeconds : kActionSeconds;
}

Ns action_ns(double action_seconds) { return nanoseconds(action_seconds); }

UniformCluster links_between_stages(const Workload& work) {
  // All edges get the same rate. If the pipeline exceeds one NVLink domain, this is the rate of the network.
  UniformCluster cluster;
  cluster.devices = work.ranks;
  cluster.bytes_per_second = work.device.link_bytes_per_second(
      is_on_nvlink(work.parallel, work.ranks, DeviceGroup::pipeline, work.device));
  for (const RankDevices& later : work.later_devices) {
    cluster.bytes_per_second = std::min({cluster.bytes_per_second, work.device.link_bytes_per_second(false),
                                         later.device.link_bytes_per_second(false)});
  }
  cluster.latency_ns = work.device.link_latency_ns;
  if (work.device.memory_bytes > 0) cluster.memory_bytes = work.device.memory_bytes;
  cluster.reserved_bytes = work.device.reserved_bytes;
  cluster.flops_per_second = work.device.bf16_flops_per_second;
  return cluster;
}

tl::expected<Cluster, std::string> unlike_stages_cluster(const Workload& work) {
  ClusterBuilder builder("stages");
  for (std::int32_t rank = 0; rank < work.ranks; ++rank) {
    const DeviceType& device = device_of_rank(work, rank);
    Device made{.name = fmt::format("{}.{}", device.name, rank),
                .reserved_bytes = device.reserved_bytes,
                .flops_per_second = device.bf16_flops_per_second};
    if (device.memory_bytes > 0) made.memory_bytes = device.memory_bytes;
    builder.add_device(std::move(made));
  }
  const auto alike = [&](std::int32_t a, std::int32_t b) {
    return later_devices_of(work, a) == later_devices_of(work, b);
  };
  for (std::int32_t a = 0; a < work.ranks; ++a) {
    // The variable `count` is the number of ranks on devices of the same kind as those of rank a. If it is
    // small enough, one NVLink domain connects these ranks.
    std::int32_t count = 0;
    for (std::int32_t b = 0; b < work.ranks; ++b) count += alike(a, b) ? 1 : 0;
    const DeviceType& one = device_of_rank(work, a);
    const bool on_nvlink = is_on_nvlink(work.parallel, count, DeviceGroup::pipeline, one);
    for (std::int32_t b = a + 1; b < work.ranks; ++b) {
      const DeviceType& other = device_of_rank(work, b);
      const double rate =
          alike(a, b) ? one.link_bytes_per_second(on_nvlink)
                      : std::min(one.link_bytes_per_second(false), other.link_bytes_per_second(false));
      builder.add_duplex_link(a, b, rate, std::max(one.link_latency_ns, other.link_latency_ns));
    }
  }
  return builder.build();
}

tl::expected<CostTable, std::string> copy_costs(const Workload& work, const KernelTables& kernels,
                                                std::span<const std::int64_t> layers,
                                                std::span<const std::int32_t> rank_of_stage,
                                                std::int64_t microbatches) {
  const std::vector<StagePrice> prices = price_stages(work, kernels, layers, rank_of_stage);
  const RankStep step =
      work.is_forward_only() ? RankStep{} : longest_step(work, kernels, prices, rank_of_stage);
  if (const auto fault = chain_fault(prices, step, microbatches)) return tl::unexpected(*fault);
  return chain_costs(prices, rank_of_stage, step, microbatches);
}

// The name of the term is formatted only here, because messages are rare.

std::string PartSum::name() const { return fmt::format(fmt::runtime(largest_.form), largest_.number); }

std::string PartSum::how_often() const {
  return largest_.times == 1 ? "" : fmt::format(", {:.0f} times", largest_.times);
}

std::string PartSum::longest() const {
  return fmt::format("{} takes {:.4g} s{}", name(), largest_.each * kSecondsPerNanosecond, how_often());
}

std::string PartSum::largest() const {
  return fmt::format("{} has {:.4g} bytes{}", name(), largest_.each, how_often());
}

}  // namespace penstock
