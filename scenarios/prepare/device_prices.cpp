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
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/model/device_model.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/device_notes.hpp"
#include "scenarios/prepare/pipeline_copy.hpp"
#include "scenarios/prepare/trained_model.hpp"
#include "scenarios/pricing/chain_costs.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/parallel.hpp"
#include "scenarios/pricing/stage_prices.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/pricing/workload_faults.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/shape.hpp"

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

/// `schedule.sharding` of copies that share out their optimizer's state anyway, as sharding 1 does.
Fault settle_sharding(Parallel& parallel, std::int32_t sharding) {
  if (sharding == 0) return std::nullopt;
  if (parallel.sharding == 0) {
    return fmt::format(
        "schedule.sharding: {} shares out the optimizer's state, which parallel.distributed_optimizer: false "
        "does not; leave one of them out",
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

// --- stages -----------------------------------------------------------------------------------------------

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

TrainedModel trained_of(const Workload& work) {
  return {.parameters = parameters(work.model),
          .active_parameters = active_parameters(work.model),
          .flops_per_sample = flops_per_sample(work.model, work.sequence),
          .tokens_per_sample = work.sequence,
          .devices = device_count(work.parallel, work.ranks),
          .copies = work.parallel.data,
          .peak_flops_per_second = peak_flops(work.device, work.precision)};
}

/// One copy as a scenario of its own, with nothing of the others but that all wait for each other at every
/// update.
Scenario of_one_copy(Scenario scenario) {
  scenario.shape.sharding = 0;  // which is the other copies' part in a step's price
  scenario.shape.barrier = true;
  if (scenario.program) scenario.program->barrier = true;
  return scenario;
}

tl::expected<CostTable, std::string> price_copy(const PipelineCopy& copy, const Workload& work,
                                                const KernelTables& kernels) {
  const std::vector<StagePrice> prices = price_stages(work, kernels, copy.layers, copy.rank_of_stage);
  const RankStep step = longest_step(work, kernels, prices, copy.rank_of_stage);
  const std::int32_t microbatches = copy.resolved.microbatches;
  if (const Fault fault = chain_fault(prices, step, microbatches)) return tl::unexpected(*fault);
  return chain_costs(prices, copy.rank_of_stage, step, microbatches);
}

}  // namespace

tl::expected<DevicePrices, std::string> price_on_devices(const Scenario& scenario, const DeviceModel& model) {
  auto work = settled(scenario, model);
  if (!work) return tl::unexpected(work.error());
  Scenario priced = of_one_copy(scenario);
  auto copy = pipeline_copy(priced, work->parallel.data, model.split, std::ssize(work->model.layers));
  if (!copy) return tl::unexpected(copy.error());
  work->micro_batch_size = copy->resolved.micro_batch_size;
  const auto costs = price_copy(*copy, *work, *model.kernels);
  if (!costs) return tl::unexpected(costs.error());
  priced.model = figures_of(*costs);
  priced.batch = copy->batch;
  priced.batch.own_micro_batch_size = work->micro_batch_size;
  priced.cluster.shape = links_between_stages(*work);
  priced.cluster.built.reset();
  if (auto& price = priced.cluster.price_per_device_hour)
    *price *= work->parallel.devices_per_rank() * static_cast<double>(work->parallel.data);
  for (std::string& note : device_notes(*work, model.split)) priced.notes.push_back(std::move(note));
  return DevicePrices{.scenario = std::move(priced),
                      .placed = std::move(copy->placed),
                      .trained = trained_of(*work),
                      .work = *work,
                      .kernels = model.kernels,
                      .layers = std::move(copy->layers),
                      .rank_of_stage = std::move(copy->rank_of_stage),
                      .microbatches = copy->resolved.microbatches};
}

void set_times(CostTable& costs, const DevicePrices& prices, const Workload& work) {
  const std::vector<std::int32_t>& ranks = prices.rank_of_stage;
  const std::vector<StagePrice> stages = price_stages(work, *prices.kernels, prices.layers, ranks);
  costs = chain_costs(stages, ranks, longest_step(work, *prices.kernels, stages, ranks), prices.microbatches);
}

}  // namespace penstock
