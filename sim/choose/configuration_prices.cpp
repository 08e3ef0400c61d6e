// Computes the costs of configurations. A space has thousands of configurations, but the cost of a layer
// depends on only some of the choices. They have only a few hundred combinations:
//
//     tensor, context and its exchange, experts and the placement of their group, microbatch, recomputation
//
// If gradients or weights are sharded over copies, the number and placement of the copies count as well. The
// cost of a layer is computed once for each combination. The costs of a stage are sums over its layers.
//
// Times and bytes are sums in 64 bits, and configurations are compared by time x devices. Therefore the sum
// of all durations of a configuration is limited:
//
//     devices x (M x sum over stages of (F + B + R + both transfers + launches) + sum of STEP)  <  2^62 ns
//
// Tests: tests/sim/tuning_test.cpp.

#include "sim/choose/configuration_prices.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/cut.hpp"
#include "scenarios/prepare/schedule_outline.hpp"
#include "scenarios/pricing/chain_costs.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/stage_prices.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/rules/extra_stages.hpp"
#include "sim/choose/configuration.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {

namespace {

constexpr double kMostUnits = 4.6e18;  // 2^62, the limit of sums in nanoseconds and in bytes

/// Returns an error message if a sum of times or bytes may exceed 64 bits. Otherwise returns an empty text.
std::string sum_fault(const PricedConfiguration& priced, const Configuration& configuration) {
  const auto microbatches = static_cast<double>(configuration.microbatches);
  // For each stage and microbatch, the host launches F, B (or I and W), R, and both ends of two messages.
  constexpr double kLaunches = 8;
  PartSum times;  // sums of times in nanoseconds
  PartSum sizes;
  const std::vector<StageCost>& stages = priced.costs.stages;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const StageCost& cost = stages[i];
    times.add("{}F", i, static_cast<double>(cost.forward_ns), microbatches);
    times.add("{}B", i, static_cast<double>(cost.backward_ns), microbatches);
    times.add("{}R", i, static_cast<double>(cost.recompute_ns), microbatches);
    times.add("a launch", i, static_cast<double>(priced.costs.launch.overhead_ns), kLaunches * microbatches);
    times.add("{}STEP", i, static_cast<double>(cost.step_ns), 1);
    if (configuration.offload > 0) {
      const HostLink& host = priced.costs.host;
      const double copy_ns = static_cast<double>(cost.kept) / host.bytes_per_second / kSecondsPerNanosecond +
                             static_cast<double>(host.latency_ns);
      times.add("an OFFLOAD or RELOAD of stage {}", i, copy_ns, 2 * microbatches);
    }
    sizes.add("kept of stage {}", i, static_cast<double>(cost.kept), microbatches);
    sizes.add("recomputed of stage {}", i, static_cast<double>(cost.recomputed), microbatches);
    sizes.add("weights of stage {}", i, static_cast<double>(cost.weights), 1);
    sizes.add("gradients of stage {}", i, static_cast<double>(cost.gradients), 1);
    sizes.add("optimizer state of stage {}", i, static_cast<double>(cost.optimizer_state), 1);
    sizes.add("transient of stage {}", i, static_cast<double>(cost.transient), 1);
  }
  for (std::size_t i = 0; i < priced.costs.edges.size(); ++i) {
    const EdgeCost& edge = priced.costs.edges[i];
    const double both = static_cast<double>(edge.activation) + static_cast<double>(edge.gradient);
    times.add("a message there and back", i,
              both / priced.links.bytes_per_second / kSecondsPerNanosecond +
                  2 * static_cast<double>(priced.links.latency_ns),
              microbatches);
    sizes.add("activation and gradient of edge {}", i, both, microbatches);
  }
  const std::int64_t devices = device_count(configuration);
  const bool fits_times = times.sum() * static_cast<double>(devices) < kMostUnits;
  if (fits_times && sizes.sum() < kMostUnits) return {};
  return fmt::format(
      "tune: one thing after the other, a step of {} microbatches takes {:.3g} s on each of {} devices and "
      "makes {:.3g} bytes, and 64 bits end at 9.2e18 nanoseconds or bytes: {}; take shorter times, smaller "
      "sizes or faster links",
      configuration.microbatches, times.sum() * kSecondsPerNanosecond, devices, sizes.sum(),
      fits_times ? sizes.largest() : times.longest());
}

/// Returns true if a rank holds all microbatches of a stage that it runs at some moment. A program with more
/// microbatches then needs more memory.
bool holds_all_units(const ScheduleOutline& outline) {
  for (const RankOutline& rank : outline.ranks) {
    for (const HeldMoment& moment : rank.moments) {
      for (std::size_t stage = 0; stage < rank.units.size(); ++stage) {
        if (moment.live[stage] == rank.units[stage]) return true;
      }
    }
  }
  return false;
}

/// Returns the costs with an entry for each of `edges`. The costs of a chain have the bytes that leave each
/// stage except the last one, which sends nothing.
CostTable with_edges(CostTable chain, const std::vector<StageEdge>& edges) {
  std::vector<EdgeCost> costs;
  costs.reserve(edges.size());
  for (const StageEdge& edge : edges) {
    const auto from = static_cast<std::size_t>(edge.from);
    costs.push_back(from < chain.edges.size() ? chain.edges[from] : EdgeCost{});
  }
  chain.edges = std::move(costs);
  return chain;
}

/// Returns the number of stages with layers.
std::int32_t layer_stage_count(const ScheduleOutline& outline) {
  return layer_stages(outline.extra, static_cast<std::int32_t>(outline.rank_of_stage.size()));
}

}  // namespace

ConfigurationPrices::ConfigurationPrices(const TuneRequest& request)
    : request_(request),
      work_(model_of(request).work),
      kinds_{kinds_in_order(request, GroupOrder::stated), kinds_in_order(request, GroupOrder::reversed)} {
  work_.parallel.gather = request.base.shape.gather;
}

void ConfigurationPrices::choose(const Configuration& configuration) {
  set_choices(work_, configuration);
  // A configuration of the space has devices of one kind for each rank, so this returns no fault.
  place_kinds(work_, kinds_[static_cast<std::size_t>(configuration.group_order)]);
}

const KernelTables& ConfigurationPrices::kernels_of(const Configuration& configuration) const {
  const auto& kinds = kinds_[static_cast<std::size_t>(configuration.group_order)];
  return kinds.empty() ? *model_of(request_).kernels : *kinds.front().kernels;
}

UnlikeRanks ConfigurationPrices::unlike_ranks() const {
  UnlikeRanks unlike;
  if (work_.later_devices.empty()) return unlike;
  const Bytes largest = usable_of(request_);
  for (std::int32_t rank = 0; rank < work_.ranks; ++rank) {
    const RankDevices* const later = later_devices_of(work_, rank);
    unlike.kinds.push_back(
        later == nullptr ? 0 : static_cast<std::size_t>(later - work_.later_devices.data()) + 1);
    unlike.smaller_by.push_back(smaller_by(device_of_rank(work_, rank), largest));
  }
  return unlike;
}

std::shared_ptr<const Cluster> ConfigurationPrices::unlike_links(const Configuration& configuration) {
  if (work_.later_devices.empty()) return nullptr;
  auto& known = unlike_links_[{configuration.group_order, configuration.stages, configuration.tensor,
                               configuration.context, configuration.data}];
  if (!known) known = std::make_shared<const Cluster>(unlike_stages_cluster(work_).value());
  return known;
}

// Before a call, work_ must have the configuration's choices. The cost of a layer depends on how many NVLink
// domains a group of devices spans. This number depends on all degrees and on the stages.
const ConfigurationPrices::KindPrices& ConfigurationPrices::layers_of(const Configuration& configuration) {
  const bool shares = configuration.sharding > 1;
  std::vector<Domains> domains;
  const auto add_domains = [&](const DeviceType& device) {
    const auto domains_of = [&](DeviceGroup group) {
      return group_domains(work_.parallel, work_.ranks, group, device);
    };
    domains.push_back({domains_of(DeviceGroup::expert), shares ? domains_of(DeviceGroup::data) : 0,
                       shares ? domains_of(DeviceGroup::expert_copies) : 0});
  };
  add_domains(work_.device);
  for (const RankDevices& later : work_.later_devices) add_domains(later.device);
  LayerKey key(configuration.tensor, configuration.context, configuration.context_exchange,
               configuration.expert, configuration.micro_batch_size, configuration.recompute,
               shares ? configuration.sharding : 0, shares ? configuration.data : 0,
               configuration.group_order, std::move(domains));
  auto& known = layers_[std::move(key)];
  if (!known)
    known = std::make_unique<const KindPrices>(layer_prices_of_kinds(work_, kernels_of(configuration)));
  return *known;
}

bool ConfigurationPrices::is_balanced(const Configuration& configuration,
                                      const ScheduleOutline& outline) const {
  // Stages without an output layer are balanced by their numbers of layers.
  if (divides_output(outline.extra)) return false;
  const auto layers = static_cast<std::int64_t>(work_.model.layers.size());
  const auto stages = static_cast<std::int32_t>(outline.rank_of_stage.size());
  return rule_in_force(request_.layer_splits[configuration.layer_split], layers, stages) ==
         LayerSplit::Rule::balanced;
}

// Requires that work_ has the configuration's choices.
const PipelineSums& ConfigurationPrices::parts_of(const Configuration& configuration,
                                                  const ScheduleOutline& outline) {
  const KindPrices& prices = layers_of(configuration);
  const bool both_ends = outline.rank_of_stage.front() == outline.rank_of_stage.back();
  const auto [known, fresh] =
      parts_.try_emplace({&prices, configuration.sharding, configuration.data, both_ends});
  if (!fresh) return known->second;
  std::vector<PartSums> of_kinds;
  for (std::size_t kind = 0; kind < prices.size(); ++kind) {
    // A copy of the workload takes as long as its parts, so it is made only for unlike devices.
    std::optional<Workload> of_kind;
    if (!work_.later_devices.empty())
      of_kind = on_devices_of_rank(work_, kind == 0 ? 0 : work_.later_devices[kind - 1].first_rank);
    of_kinds.push_back(part_sums(of_kind ? *of_kind : work_, prices[kind], both_ends));
  }
  known->second = pipeline_sums(std::move(of_kinds));
  return known->second;
}

// Requires that work_ has the configuration's choices.
std::vector<std::int64_t> ConfigurationPrices::cut_of(const Configuration& configuration,
                                                      const ScheduleOutline& outline) {
  if (!is_balanced(configuration, outline)) {
    const LayerSplit& split = request_.layer_splits[configuration.layer_split];
    const auto layers = static_cast<std::int64_t>(work_.model.layers.size());
    const std::int32_t stages = layer_stage_count(outline);
    const auto [known, fresh] = cuts_.try_emplace({configuration.layer_split, stages});
    if (!fresh) return known->second;
    const bool is_even = rule_in_force(split, layers, stages) == LayerSplit::Rule::balanced;
    known->second =
        is_even ? nearly_even_layers(layers, stages) : split_layers(split, layers, stages).value();
    return known->second;
  }
  // The balanced split depends only on the layers' costs and the ranks of the stages. Many configurations
  // agree in both.
  const KindPrices& prices = layers_of(configuration);
  const auto [known, fresh] = level_.try_emplace({&prices, outline.rank_of_stage});
  if (fresh) {
    known->second = level_times_split({.work = work_,
                                       .kernels = kernels_of(configuration),
                                       .prices = prices,
                                       .outline = outline,
                                       .microbatches = configuration.microbatches});
  }
  return known->second;
}

std::optional<LowerBounds> ConfigurationPrices::quick_bounds(const Configuration& configuration,
                                                             const ScheduleOutline& outline) {
  // The sums below do not include messages, launches and STEP, but prices do. The factor 32 leaves room for
  // these.
  constexpr double kFarBelow = kMostUnits / 32;
  choose(configuration);
  const PipelineSums& sums = parts_of(configuration, outline);
  const double microbatches = configuration.microbatches;
  for (const PartSums& kind : sums.kinds) {
    const PartCost& all = kind.before.back();
    const double busy_ns = all.total_ns() * microbatches * static_cast<double>(device_count(configuration));
    const double bytes = (all.kept + all.recomputed) * microbatches + all.constant + all.gradients;
    if (busy_ns >= kFarBelow || bytes >= kFarBelow) return std::nullopt;
  }
  const UnlikeRanks unlike = unlike_ranks();
  if (is_balanced(configuration, outline))
    return penstock::quick_bounds(sums, unlike, outline, configuration.microbatches);
  return penstock::quick_bounds(sums, unlike, cut_of(configuration, outline), outline,
                                configuration.microbatches);
}

std::optional<LowerBounds> ConfigurationPrices::level_bounds(const Configuration& configuration,
                                                             const ScheduleOutline& outline) {
  choose(configuration);
  const std::optional<Bytes> usable = work_.device.usable_memory();
  if (!usable || !work_.later_devices.empty() || !is_balanced(configuration, outline)) return std::nullopt;
  const PipelineSums& sums = parts_of(configuration, outline);
  const std::vector<std::int64_t> layers = cut_of(configuration, outline);
  const Bytes all_usable = *usable * std::ssize(outline.ranks);
  if (least_bytes_of_ranks(sums.least(), layers, outline) <= all_usable) return std::nullopt;
  return penstock::quick_bounds(sums, {}, layers, outline, configuration.microbatches);
}

// Returns the outline for this number of microbatches. Most outlines do not change with the number of
// microbatches, so they are returned without a copy.
const ScheduleOutline& ConfigurationPrices::whole_of(const ScheduleOutline& outline,
                                                     std::int32_t microbatches) {
  if (microbatches <= outline.units || !holds_all_units(outline)) return outline;
  if (whole_.of != &outline || whole_.microbatches != microbatches) {
    whole_ = {
        .of = &outline, .microbatches = microbatches, .outline = outline_of_whole(outline, microbatches)};
  }
  return whole_.outline;
}

PricedConfiguration ConfigurationPrices::of(const Configuration& configuration,
                                            const ScheduleOutline& outline) {
  choose(configuration);
  PricedConfiguration priced = of(configuration, outline, cut_of(configuration, outline));
  if (!is_balanced(configuration, outline) || !priced.fault.empty()) return priced;
  const SplitTask task{.work = work_,
                       .kernels = kernels_of(configuration),
                       .prices = layers_of(configuration),
                       .outline = whole_of(outline, configuration.microbatches),
                       .microbatches = configuration.microbatches};
  std::vector<std::int64_t> fitted = fitted_split(task, priced.layers, priced.costs);
  return fitted == priced.layers ? priced : of(configuration, outline, std::move(fitted));
}

// The result has the same costs that prepare() computes for the configuration's scenario. A test compares
// them to the nanosecond.
PricedConfiguration ConfigurationPrices::of(const Configuration& configuration,
                                            const ScheduleOutline& outline,
                                            std::vector<std::int64_t> layers) {
  choose(configuration);
  work_.predictions = request_.layer_splits[configuration.layer_split].predictions;
  const std::vector<std::int32_t>& rank_of_stage = outline.rank_of_stage;
  PricedConfiguration priced{.layers = std::move(layers),
                             .costs = {},
                             .links = links_between_stages(work_),
                             .unlike_links = unlike_links(configuration),
                             .smaller_by = unlike_ranks().smaller_by};
  if (divides_output(outline.extra)) {
    auto costs = sliced_output_costs(work_, kernels_of(configuration), layers_of(configuration),
                                     priced.layers, rank_of_stage, configuration.microbatches, outline.extra);
    if (!costs) {
      priced.fault = costs.error();
      return priced;
    }
    priced.costs = with_edges(*std::move(costs), outline.edges);
  } else {
    const std::vector<StagePrice> prices =
        price_stages(work_, layers_of(configuration), priced.layers, rank_of_stage);
    const RankStep step = longest_step(work_, kernels_of(configuration), prices, rank_of_stage);
    priced.fault = chain_fault(prices, step, configuration.microbatches).value_or("");
    if (!priced.fault.empty()) return priced;
    priced.costs = chain_costs(prices, rank_of_stage, step, configuration.microbatches);
  }
  priced.costs.launch = request_.base.launch;
  if (configuration.offload > 0) priced.costs.host = request_.base.host;
  priced.fault = sum_fault(priced, configuration);
  return priced;
}

// Finds a lower bound of a configuration's step time. Let s be the first stage on rank r. The rank cannot
// start before the first microbatch has passed all stages before s. After the rank's last work, the last
// gradient must still return through these stages:
//
//     step >= sum over i < s of (F_i + transfer_i)  +  M * (work of r)  +  sum over i < s of (B_i
//             + transfer_i)  +  STEP of the first stage's rank
//
// If backward passes are not split, the rank's last action is the B of stage s. If they are split, W may run
// while the gradient returns. Then there are two bounds: one omits W, and the other counts W but omits the
// return.
//
//     stage 0   F0                                    B7 STEP
//     stage 1      F0                              B7
//     stage 2         |--- M (F + B) of the rank --|             s = 2, M = 8
//
// If the output layer is divided over all ranks, s is the first stage of layers, and the sums go over stages
// of layers.
//
// The lower bound of the memory is the number of bytes that a rank holds at one of its fullest moments. Of
// the messages, it counts only the input of the running action. Tests: tests/sim/tuning_test.cpp.

namespace {

/// The least times from the start of the first stage to the start of each stage, and back. Messages between
/// stages of one rank take no time.
struct TravelTimes {
  std::vector<Ns> there;
  std::vector<Ns> back;
};

/// Returns the time of a message over edge `edge` between stages that may be on one rank.
Ns transfer_ns(const PricedConfiguration& priced, std::size_t edge,
               const std::vector<std::int32_t>& rank_of_stage) {
  const std::int32_t from = rank_of_stage[edge];
  const std::int32_t to = rank_of_stage[edge + 1];
  if (from == to) return 0;
  const Bytes bytes = priced.costs.edges[edge].activation;
  if (!priced.unlike_links)
    return serialization_ns(bytes, priced.links.bytes_per_second) + priced.links.latency_ns;
  const Route route = priced.unlike_links->route(from, to);
  return serialization_ns(bytes, route.bytes_per_second) + route.latency_ns;
}

TravelTimes travel_times(const PricedConfiguration& priced, const ScheduleOutline& outline) {
  const std::vector<StageCost>& stages = priced.costs.stages;
  TravelTimes travel{.there = {0}, .back = {0}};
  travel.there.reserve(stages.size());
  travel.back.reserve(stages.size());
  // Stages after the stages of layers are on ranks whose first stage has layers.
  for (std::size_t i = 0; i + 1 < index(layer_stage_count(outline)); ++i) {
    const Ns transfer = transfer_ns(priced, i, outline.rank_of_stage);
    const Ns backward = outline.splits_backward ? stages[i].backward_input_ns : stages[i].backward_ns;
    travel.there.push_back(travel.there.back() + stages[i].forward_ns + transfer);
    travel.back.push_back(travel.back.back() + backward + transfer);
  }
  return travel;
}

std::size_t first_rank(const ScheduleOutline& outline) { return index(outline.rank_of_stage.front()); }

/// Returns the total time of the STEPs (optimizer steps) of all stages on the rank.
Ns step_of(const PricedConfiguration& priced, const RankOutline& rank) {
  Ns step = 0;
  for (const std::int32_t stage : rank.stages) step += priced.costs.stages[index(stage)].step_ns;
  return step;
}

/// Returns the larger of two lower bounds of the step time for one rank. The first bound ends with the STEP
/// of the first stage, after the last gradient has returned. The second bound counts the actions W
/// (gradient of the weights), but not this return.
Ns step_bound(const PricedConfiguration& priced, const ScheduleOutline& outline, const RankOutline& rank,
              const TravelTimes& travel, std::int64_t microbatches) {
  Ns needed = 0;  // work of one microbatch on the rank, up to the start of its gradient's return
  Ns work = 0;
  for (const std::int32_t stage : rank.stages) {
    const StageCost& cost = priced.costs.stages[index(stage)];
    needed += cost.forward_ns;
    // The gradient returns after the forward pass of each slice of the output layer. In 1f1b-vocab-2, it does
    // not wait for the backward passes of slices.
    if (stage < layer_stage_count(outline))
      needed += outline.splits_backward ? cost.backward_input_ns : cost.backward_ns;
    work += cost.forward_ns + cost.backward_ns;
    if (!outline.overlaps_pairs) continue;
    // Each F and B of the stage is in at most one overlapped pair. One pair saves at most
    // cost.pair_hidden_ns.
    needed -= cost.pair_hidden_ns;
    work -= cost.pair_hidden_ns;
  }
  const std::size_t earliest = index(rank.stages.front());
  const Ns back =
      microbatches * needed + travel.back[earliest] + step_of(priced, outline.ranks[first_rank(outline)]);
  return travel.there[earliest] + std::max(back, microbatches * work + step_of(priced, rank));
}

}  // namespace

LowerBounds lower_bounds(const PricedConfiguration& priced, const ScheduleOutline& outline,
                         std::int32_t microbatches) {
  const TravelTimes travel = travel_times(priced, outline);
  LowerBounds bounds;
  for (const RankOutline& rank : outline.ranks) {
    bounds.step_ns = std::max(bounds.step_ns, step_bound(priced, outline, rank, travel, microbatches));
    const auto number = static_cast<std::size_t>(&rank - outline.ranks.data());
    const Bytes smaller_by = priced.smaller_by.empty() ? 0 : priced.smaller_by[number];
    const Bytes least = divides_output(outline.extra) ? least_peak_bytes(priced.costs, rank)
                                                      : least_peak_bytes(priced.costs, outline, rank);
    bounds.peak_bytes = std::max(bounds.peak_bytes, least + smaller_by);
  }
  return bounds;
}

}  // namespace penstock
