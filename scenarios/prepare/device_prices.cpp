// A rank of the program stands for the tensor x context devices that share its stages, and the program for
// all copies of the pipeline, which do the same at the same time:
//
//   devices = tensor x context x ranks x copies          microbatches of a copy = global batch / (micro batch
//   x copies)
//
// What copies tell each other is no message of the program: the part of it that nothing hides is in STEP,
// which lasts equally long on all ranks, since all of them wait for the norm of all gradients before they
// update.

#include "scenarios/prepare/device_prices.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/model/device_model.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/compute_program.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/pipeline_copy.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/parallel.hpp"
#include "scenarios/pricing/stage_prices.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/pricing/workload_faults.hpp"
#include "scenarios/read/batch.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/shape.hpp"
#include "topology/device_types.hpp"
#include "topology/presets.hpp"
#include "topology/unit_factors.hpp"

namespace penstock {
namespace {

using Fault = std::optional<std::string>;

// --- what cannot be priced -----------------------------------------------------------------------------

Fault schedule_fault(const Shape& shape) {
  const bool has_replicas = std::ranges::any_of(shape.replicas, [](std::int32_t count) { return count > 1; });
  if (shape.data_parallel > 1 || has_replicas) {
    return std::string(
        "schedule: copies of a model on named devices are parallel.data; leave replicas and data_parallel "
        "out");
  }
  if (!shape.buckets.empty()) {
    return std::string(
        "schedule.buckets: a model on named devices reduces beside its backward pass as "
        "parallel.data_overlap says; leave it out");
  }
  return std::nullopt;
}

// --- devices and batches ----------------------------------------------------------------------------------

std::int32_t ranks_of(const Scenario& scenario) {
  return scenario.program ? scenario.program->rank_count() : scenario.shape.stages;
}

tl::expected<std::int32_t, std::string> copies_of(const DeviceModel& model, std::int32_t ranks) {
  const std::int64_t one = std::int64_t{model.work.parallel.devices_per_rank()} * ranks;
  if (model.copies) {
    const std::int64_t wanted = one * *model.copies;
    if (wanted <= model.devices) return *model.copies;
    return tl::unexpected(fmt::format(
        "parallel: tensor {} x context {} x {} stages x data {} takes {} devices, the cluster has {}",
        model.work.parallel.tensor, model.work.parallel.context, ranks, *model.copies, wanted,
        model.devices));
  }
  if (one <= model.devices && model.devices % one == 0) return static_cast<std::int32_t>(model.devices / one);
  return tl::unexpected(fmt::format(
      "parallel: tensor {} x context {} x {} stages are {} devices for a copy of the pipeline, {} the "
      "cluster's {}; state parallel.data, or take other degrees or nodes",
      model.work.parallel.tensor, model.work.parallel.context, ranks, one,
      one > model.devices ? "more than" : "which do not divide", model.devices));
}

// --- stages -----------------------------------------------------------------------------------------------

Ns nanoseconds(double seconds) { return static_cast<Ns>(std::llround(seconds * kNanosecondsPerSecond)); }
Bytes whole_bytes(double bytes) { return static_cast<Bytes>(std::llround(bytes)); }

/// Times and bytes are whole numbers of 64 bits.
Fault size_fault(const std::vector<StagePrice>& prices, const RankStep& step, std::int64_t microbatches) {
  constexpr double kMost = 4e18;
  double seconds = step.total_s();
  double bytes = 0;
  for (const StagePrice& price : prices) {
    seconds = std::max({seconds, price.forward_s, price.backward_input_s + price.backward_weight_s});
    bytes = std::max({bytes, price.kept_bytes, price.transient_bytes, price.edge_bytes, price.gradient_bytes,
                      price.optimizer_bytes, price.deferred_bytes * static_cast<double>(microbatches)});
    seconds = std::max(seconds, price.deferred_s * static_cast<double>(microbatches));
  }
  if (seconds * kNanosecondsPerSecond < kMost && bytes < kMost) return std::nullopt;
  return fmt::format(
      "model: a stage takes {:.3g} s and holds {:.3g} bytes for one microbatch, which is beyond 64 bits; "
      "take a shorter sequence or fewer samples",
      seconds, bytes);
}

template <typename Value>
PerStage<Value> figures_by_stage(const CostTable& costs, Value StageCost::* figure) {
  PerStage<Value> figures{.values = {}, .is_list = true, .place = "model"};
  for (const StageCost& cost : costs.stages) figures.values.push_back(cost.*figure);
  return figures;
}

StageFigures figures_of(const CostTable& costs) {
  StageFigures figures;
  figures.forward = figures_by_stage(costs, &StageCost::forward_ns);
  figures.backward_input = figures_by_stage(costs, &StageCost::backward_input_ns);
  figures.backward_weight = figures_by_stage(costs, &StageCost::backward_weight_ns);
  figures.step = figures_by_stage(costs, &StageCost::step_ns);
  figures.kept = figures_by_stage(costs, &StageCost::kept);
  figures.weights = figures_by_stage(costs, &StageCost::weights);
  figures.gradients = figures_by_stage(costs, &StageCost::gradients);
  figures.optimizer_state = figures_by_stage(costs, &StageCost::optimizer_state);
  figures.transient = figures_by_stage(costs, &StageCost::transient);
  figures.activation = {.values = {}, .is_list = true, .place = "model"};
  for (const EdgeCost& edge : costs.edges) figures.activation.values.push_back(edge.activation);
  figures.activation.values.push_back(0);  // out of the last stage
  return figures;
}

}  // namespace

UniformCluster links_between_stages(const Workload& work) {
  UniformCluster cluster;
  cluster.devices = work.ranks;
  cluster.bytes_per_second = link_bytes_per_second(work, DeviceGroup::pipeline);
  cluster.latency_ns = work.device.link_latency_ns;
  if (work.device.memory_bytes > 0) cluster.memory_bytes = work.device.memory_bytes;
  cluster.flops_per_second = work.device.bf16_flops_per_second;
  return cluster;
}

CostTable chain_costs(std::span<const StagePrice> prices, std::span<const std::int32_t> rank_of_stage,
                      const RankStep& step, std::int64_t microbatches) {
  const auto all = static_cast<double>(microbatches);
  CostTable costs;
  costs.stages.reserve(prices.size());
  for (std::size_t i = 0; i < prices.size(); ++i) {
    const StagePrice& price = prices[i];
    StageCost& cost = costs.stages.emplace_back();
    cost.forward_ns = nanoseconds(price.forward_s);
    cost.recompute_ns = cost.forward_ns;
    cost.backward_input_ns = nanoseconds(price.backward_input_s);
    cost.backward_weight_ns = nanoseconds(price.backward_weight_s);
    cost.backward_ns = cost.backward_input_ns + cost.backward_weight_ns;
    // A rank's step is shared out over the stages that it updates. What a stage has put off comes before its
    // part.
    cost.step_ns = nanoseconds(step.total_s()) / std::ranges::count(rank_of_stage, rank_of_stage[i]) +
                   nanoseconds(price.deferred_s * all);
    cost.kept = whole_bytes(price.kept_bytes);
    cost.weights = whole_bytes(price.weight_bytes);
    cost.gradients = whole_bytes(price.gradient_bytes);
    cost.optimizer_state = whole_bytes(price.optimizer_bytes);
    cost.transient = whole_bytes(price.transient_bytes + price.deferred_bytes * all);
    if (i + 1 == prices.size()) break;
    costs.edges.push_back(
        {.activation = whole_bytes(price.edge_bytes), .gradient = whole_bytes(price.edge_bytes)});
  }
  return costs;
}

namespace {

TrainedModel trained_of(const Workload& work) {
  return {.parameters = parameters(work.model),
          .active_parameters = active_parameters(work.model),
          .flops_per_sample = flops_per_sample(work.model, work.sequence),
          .tokens_per_sample = work.sequence,
          .devices = device_count(work.parallel, work.ranks),
          .copies = work.parallel.data,
          .peak_flops_per_second = peak_flops(work.device, work.precision)};
}

std::string_view on_or_off(bool flag) { return flag ? "on" : "off"; }

std::string devices_note(const Workload& work) {
  const Parallel& parallel = work.parallel;
  const auto place = [&](DeviceGroup group) {
    return is_on_nvlink(parallel, work.ranks, group, work.device) ? "NVLink" : "network";
  };
  return fmt::format(
      "{} x {}: tensor {} x context {} ({}) x {} stages x data {}, expert {}, order {}; tensor over {}, "
      "stages over "
      "{}, copies over {}; a rank is {} of them, and its figures are those of one",
      device_count(parallel, work.ranks), work.device.name, parallel.tensor, parallel.context,
      to_text(parallel.context_exchange), work.ranks, parallel.data, parallel.expert, to_text(parallel.order),
      place(DeviceGroup::tensor), place(DeviceGroup::pipeline), place(DeviceGroup::data),
      parallel.devices_per_rank());
}

std::string prices_note(const LayerSplit& split, const Workload& work) {
  const Parallel& parallel = work.parallel;
  const DeviceType& device = work.device;
  return fmt::format(
      "priced with sequence {}, precision {}, {} bytes a gradient, {} bytes a parameter for the optimizer, "
      "recompute {}, layer_split {}, sequence_parallel {}, tensor_overlap {}, data_overlap {}, "
      "sharding {}, sustained {}, collectives {}, step_fraction {}",
      work.sequence, to_text(work.precision), work.gradient_bytes, work.optimizer_bytes,
      to_text(work.recompute), to_text(split), on_or_off(parallel.sequence_parallel),
      on_or_off(parallel.tensor_overlap), on_or_off(parallel.data_overlap), parallel.sharding,
      sustained_factor(work), device.collectives, device.step_fraction);
}

std::string experts_note(const Workload& work) {
  return fmt::format(
      "each layer of experts has {:.4g} ms both ways that no known kernel explains, as DeepSeek-V2 showed on "
      "B200 "
      "(training.expert_layer)",
      work.unexplained_expert_seconds * 1e3);
}

/// `schedule.sharding` of copies that share out their optimizer's state anyway, as sharding 1 does.
Fault settle_sharding(Parallel& parallel, std::int32_t sharding) {
  if (sharding == 0) return std::nullopt;
  if (parallel.sharding == 0) {
    return fmt::format(
        "schedule.sharding: {} shares out the optimizer's state, which parallel.distributed_optimizer: false "
        "does not; "
        "leave one of them out",
        sharding);
  }
  parallel.sharding = sharding;
  return std::nullopt;
}

/// With its degrees of parallelism settled. Errors are all that can be said without stages.
tl::expected<Workload, std::string> settled(const Scenario& scenario, const DeviceModel& model) {
  Workload work = model.work;
  work.ranks = ranks_of(scenario);
  const auto copies = copies_of(model, work.ranks);
  if (!copies) return tl::unexpected(copies.error());
  work.parallel.data = *copies;
  if (const Fault fault = schedule_fault(scenario.shape)) return tl::unexpected(*fault);
  if (const Fault fault = settle_sharding(work.parallel, scenario.shape.sharding))
    return tl::unexpected(*fault);
  if (const Fault fault = fault_of(work)) return tl::unexpected(*fault);
  return work;
}

}  // namespace

tl::expected<DevicePrices, std::string> price_on_devices(const Scenario& scenario, const DeviceModel& model) {
  auto work = settled(scenario, model);
  if (!work) return tl::unexpected(work.error());
  Scenario priced = scenario;
  priced.shape.sharding = 0;  // of copies that are not simulated
  const auto copy = pipeline_copy(priced, work->parallel.data);
  if (!copy) return tl::unexpected(copy.error());
  const ResolvedBatch& resolved = copy->resolved;
  work->micro_batch_size = resolved.micro_batch_size;
  const auto placed = placed_program(copy->schedule);
  if (!placed) return tl::unexpected(placed.error());
  const auto layers =
      split_layers(model.split, static_cast<std::int64_t>(work->model.layers.size()), placed->stage_count());
  if (!layers) return tl::unexpected(layers.error());
  const std::vector<std::int32_t> ranks = ranks_of_stages(*placed);
  const std::vector<StagePrice> prices = price_stages(*work, *model.kernels, *layers, ranks);
  // All copies wait for each other at every update.
  priced.shape.barrier = true;
  if (priced.program) priced.program->barrier = true;
  const RankStep step = longest_step(*work, *model.kernels, prices, ranks);
  if (const Fault fault = size_fault(prices, step, resolved.microbatches)) return tl::unexpected(*fault);
  priced.model = figures_of(chain_costs(prices, ranks, step, resolved.microbatches));
  priced.batch = copy->batch;
  priced.batch.own_micro_batch_size = work->micro_batch_size;
  priced.cluster.shape = links_between_stages(*work);
  priced.cluster.built.reset();
  if (auto& price = priced.cluster.price_per_device_hour)
    *price *= work->parallel.devices_per_rank() * static_cast<double>(work->parallel.data);
  priced.notes.push_back(devices_note(*work));
  priced.notes.push_back(prices_note(model.split, *work));
  if (work->deferred_head) {
    priced.notes.emplace_back(
        "the head's weight gradient is computed at the end of the step, from what all microbatches leave "
        "(training.deferred_head)");
  }
  if (work->model.experts && work->unexplained_expert_seconds > 0)
    priced.notes.push_back(experts_note(*work));
  return DevicePrices{.scenario = std::move(priced),
                      .trained = trained_of(*work),
                      .work = *work,
                      .kernels = model.kernels,
                      .layers = *layers,
                      .rank_of_stage = ranks,
                      .microbatches = resolved.microbatches};
}

void set_times(CostTable& costs, const DevicePrices& prices, const Workload& work) {
  const std::vector<std::int32_t>& ranks = prices.rank_of_stage;
  const std::vector<StagePrice> stages = price_stages(work, *prices.kernels, prices.layers, ranks);
  costs = chain_costs(stages, ranks, longest_step(work, *prices.kernels, stages, ranks), prices.microbatches);
}

}  // namespace penstock
