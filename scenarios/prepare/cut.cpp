// Prepares one copy of the pipeline of a scenario, and cuts its model into stages and gradient buckets. If a
// partitioner plans the cuts, planned_scenario.cpp computes them.

#include "scenarios/prepare/cut.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {

/// Returns the model's workload with all degrees of parallelism. The microbatch size is not set yet.
/// Returns an error if degrees, heads, experts or sequences do not divide evenly, or if the cluster has too
/// few devices. It also returns an error if the devices lack a precision, or if the schedule itself creates
/// copies.
tl::expected<Workload, std::string> device_workload(const Scenario& scenario, const DeviceModel& model);

// Prepares one copy of a pipeline instead of all copies, because all of them do the same work at the same
// time. Three kinds of models have copies:
//
//   transformer on named devices  -> the copies that its devices make
//   costs fitted on measured runs -> the copies that are stated
//   layers, partition: pipedream  -> the partitioner's cuts, in one program of all copies
//
// The other copies affect only the time of an optimizer step, because all copies wait for each other there.

namespace {

using Copy = tl::expected<OneCopy, std::string>;

Copy on_devices(const Scenario& stated, const DeviceModel& model) {
  auto work = device_workload(stated, model);
  if (!work) return tl::unexpected(work.error());
  OneCopy copy{.scenario = stated, .copies = work->parallel.data, .work = *std::move(work)};
  // The program has only one copy, so it cannot shard. The workload already contains the sharding, and the
  // time of a step contains its communication. The barrier represents the gradient norm, because every rank
  // waits for this norm before its update.
  copy.scenario.shape.sharding.reset();
  copy.scenario.shape.gather = Gather::microbatch;
  const bool has_updates = !copy.work->is_forward_only();
  copy.scenario.shape.barrier |= has_updates;
  if (copy.scenario.program) copy.scenario.program->barrier |= has_updates;
  return copy;
}

Copy by_fit(const Scenario& stated, const FittedModel& model) {
  if (stated.shape.data_parallel > 1 || stated.shape.sharding.value_or(0) > 0 ||
      !stated.shape.buckets.empty()) {
    return tl::unexpected(
        std::string("schedule: copies of a model with fitted costs are parallel.data; leave data_parallel, "
                    "sharding and buckets out"));
  }
  return OneCopy{.scenario = stated, .copies = model.copies};
}

}  // namespace

Copy one_copy(const Scenario& stated) {
  if (const auto* model = std::get_if<FittedModel>(&stated.model)) return by_fit(stated, *model);
  if (const auto* model = std::get_if<DeviceModel>(&stated.model)) return on_devices(stated, *model);
  return with_planned_partition(stated).map(
      [](Scenario&& planned) { return OneCopy{.scenario = std::move(planned)}; });
}

// Computes the devices and microbatches of a workload. One rank of the program represents the tensor x
// context devices that share its stages. The program represents all copies of the pipeline:
//
//   devices = tensor x context x ranks x copies
//   microbatches of a copy = global batch / (micro batch x copies)

namespace {

using Fault = std::optional<std::string>;

/// Returns an error message if the schedule itself creates data-parallel copies or divides gradients into
/// buckets. The costs of the stages already include the copies and their reductions, so these would count
/// twice.
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

/// Returns the passes for which the costs of stages are computed: only forward, or both. If only some stages
/// of a program run backward passes, both passes are computed for all stages.
Passes passes_of(const Scenario& scenario) {
  if (!scenario.program) return scenario.shape.passes;
  return is_forward_only(*scenario.program) ? scenario.program->placement.stages.front().passes
                                            : Passes::both;
}

/// Returns the number of ranks of the scenario. For a program file this is the number that the file states.
/// Virtual stages need no ranks of their own.
std::int32_t ranks_of(const Scenario& scenario) {
  return scenario.program ? scenario.program->rank_count() : scenario.shape.stages;
}

/// Returns the number of copies of the pipeline. If it is stated, the cluster must have enough devices for
/// them. Otherwise the copies use all devices.
tl::expected<std::int32_t, std::string> copies_of(const DeviceModel& model, std::int32_t ranks) {
  const Parallel& degrees = model.work.parallel;
  // The numbers come from a file and are not yet compared with the cluster, so their product may need more
  // than 64 bits. After this check, products of degrees count existing devices and fit in 32 bits.
  const Wide one = static_cast<Wide>(degrees.tensor) * degrees.context * ranks;
  if (model.copies) {
    const Wide wanted = one * *model.copies;
    if (wanted <= model.devices) return *model.copies;
    return tl::unexpected(fmt::format(
        "parallel: tensor {} x context {} x {} stages x data {} takes {} devices, the cluster has {}",
        degrees.tensor, degrees.context, ranks, *model.copies, saturated(wanted), model.devices));
  }
  if (one <= model.devices && model.devices % one == 0) return static_cast<std::int32_t>(model.devices / one);
  return tl::unexpected(fmt::format(
      "parallel: tensor {} x context {} x {} stages are {} devices for a copy of the pipeline, {} the "
      "cluster's {}; state parallel.data, or take other degrees or nodes",
      degrees.tensor, degrees.context, ranks, saturated(one),
      one > model.devices ? "more than" : "which do not divide", model.devices));
}

/// Sets the degree of sharding that the schedule states, in place of the one that follows from
/// `distributed_optimizer`. Returns an error if only one of the two divides the optimizer state among the
/// copies.
Fault settle_sharding(Parallel& parallel, const DeviceModel& model, std::optional<std::int32_t> sharding) {
  if (!sharding) return std::nullopt;
  const bool shares = *sharding > 0;
  if (model.distributed_optimizer.value_or(shares) != shares) {
    if (shares) {
      return fmt::format(
          "schedule.sharding: {} shares out the optimizer's state, which parallel.distributed_optimizer: "
          "false does not; leave one of them out",
          *sharding);
    }
    return std::string(
        "schedule.sharding: none keeps the optimizer's state whole on every copy, which "
        "parallel.distributed_optimizer: true shares out; leave one of them out");
  }
  parallel.sharding = *sharding;
  return std::nullopt;
}

}  // namespace

Fault place_kinds(Workload& work, std::span<const DeviceKind> kinds) {
  if (kinds.empty()) return std::nullopt;
  const Parallel& parallel = work.parallel;
  if (parallel.order != PlacementOrder::tp_cp_ep_dp_pp) {
    return std::string(
        "parallel.order: expected tp-cp-ep-dp-pp for cluster.groups, so that all copies of a stage are on "
        "devices of "
        "one kind");
  }
  const std::int64_t of_rank = std::int64_t{parallel.devices_per_rank()} * parallel.data;
  std::int64_t rank = 0;
  work.device = kinds.front().type;
  work.later_devices.clear();
  for (const DeviceKind& kind : kinds) {
    if (kind.devices % of_rank != 0) {
      return fmt::format(
          "cluster.groups: a stage with its copies takes {} devices (tensor x context x data), which do not "
          "divide the "
          "{} of {}; choose other degrees or nodes",
          of_rank, kind.devices, kind.type.name);
    }
    if (rank > 0 && rank < work.ranks) {
      work.later_devices.push_back(
          {.first_rank = static_cast<std::int32_t>(rank), .device = kind.type, .kernels = kind.kernels});
    }
    rank += kind.devices / of_rank;
  }
  return std::nullopt;
}

tl::expected<Workload, std::string> device_workload(const Scenario& scenario, const DeviceModel& model) {
  Workload work = model.work;
  work.ranks = ranks_of(scenario);
  const auto copies = copies_of(model, work.ranks);
  if (!copies) return tl::unexpected(copies.error());
  work.parallel.data = *copies;
  work.parallel.gather = scenario.shape.gather;
  if (const Fault fault = schedule_fault(scenario.shape)) return tl::unexpected(*fault);
  if (const Fault fault = settle_sharding(work.parallel, model, scenario.shape.sharding))
    return tl::unexpected(*fault);
  if (const Fault fault = place_kinds(work, model.kinds)) return tl::unexpected(*fault);
  if (const Passes passes = passes_of(scenario); passes != Passes::both)
    work = forward_only(std::move(work), passes);
  if (const Fault fault = fault_of(work)) return tl::unexpected(*fault);
  for (const RankDevices& later : work.later_devices) {
    if (const Fault fault = fault_of(on_devices_of_rank(work, later.first_rank)))
      return tl::unexpected(*fault);
  }
  return work;
}

// Cuts a model of layers by the scenario's partition. Other models already consist of stages.
//
//   layers   a b c | d      partition [3]      ends  3 4

std::vector<double> slowness_of_stages(const Model& model, const Program& placed) {
  const auto* graph = std::get_if<LayerGraph>(&model);
  if (graph == nullptr || graph->device_slowness.empty()) return {};
  std::vector<double> slowness;
  for (const StagePlacement& stage : placed.placement.stages) {
    double slowest = 0;
    for (const std::int32_t rank : stage.ranks) {
      // If the rank has no device, it is skipped here. The error is reported later, when the cluster is
      // built.
      const auto device = static_cast<std::size_t>(rank);
      if (device < graph->device_slowness.size()) slowest = std::max(slowest, graph->device_slowness[device]);
    }
    slowness.push_back(slowest > 0 ? slowest : 1);
  }
  return slowness;
}

tl::expected<StageCut, std::string> cut_model(const Model& model, const Partition& partition,
                                              std::int32_t stages, std::vector<double> slowness) {
  const auto* graph = std::get_if<LayerGraph>(&model);
  if (graph == nullptr) return StageCut{.stages = stages};
  auto cuts = cut_layers(*graph, partition, stages, slowness);
  if (!cuts) return tl::unexpected(cuts.error());
  cuts->push_back(static_cast<std::int32_t>(graph->layers.size()));
  return StageCut{.stages = stages, .ends = *std::move(cuts), .slowness = std::move(slowness)};
}

// --- bucket cut ------------------------------------------------------------------------------------------
//
// The layers of a stage are cut again if its gradients are reduced in several buckets:
//
//   layers   a b c | d      buckets [2, 1]      a | b c | d      ends  1 3 4

namespace {

using Numbers = std::vector<std::int32_t>;

/// Returns one number for each stage. A single stated number applies to all stages. Returns an error if a
/// list has the wrong length.
tl::expected<Numbers, std::string> by_stage(const Numbers& stated, std::int32_t stages) {
  if (std::ranges::any_of(stated, [](std::int32_t count) { return count < 1; })) {
    return tl::unexpected(
        fmt::format("schedule.buckets: expected numbers of at least 1, got [{}]", fmt::join(stated, ", ")));
  }
  if (stated.size() == 1) return Numbers(static_cast<std::size_t>(stages), stated.front());
  if (static_cast<std::int32_t>(stated.size()) == stages) return stated;
  return tl::unexpected(fmt::format(
      "schedule.buckets: expected one number or a list of {}, one for each stage of the model, got a list of "
      "{}",
      stages, stated.size()));
}

/// Limits the number of buckets of each stage to its number of layers. It is used if one number is stated for
/// all stages. A stated list is not limited, and cut_buckets() refuses numbers that are too large.
Numbers no_more_than_layers(Numbers buckets, const Numbers& ends) {
  std::int32_t begin = 0;
  for (std::size_t stage = 0; stage < buckets.size(); ++stage) {
    buckets[stage] = std::min(buckets[stage], ends[stage] - begin);
    begin = ends[stage];
  }
  return buckets;
}

}  // namespace

tl::expected<StageCut, std::string> cut_into_buckets(const Model& model, const StageCut& whole,
                                                     const Numbers& stated) {
  if (stated.empty()) return whole;
  const auto* figures = std::get_if<StageFigures>(&model);
  if (figures != nullptr && !figures->edges.empty()) {
    return tl::unexpected(std::string(
        "schedule.buckets: stages with edges of their own cannot be cut; leave model.stages.edges out"));
  }
  auto buckets = by_stage(stated, whole.stages);
  if (!buckets) return tl::unexpected(buckets.error());
  StageCut cut{.stages = whole.stages, .buckets = *std::move(buckets)};
  // Stages without layers are divided into equal parts when their costs are computed (program_prices.cpp).
  const auto* graph = std::get_if<LayerGraph>(&model);
  if (graph == nullptr) return cut;
  if (stated.size() == 1) cut.buckets = no_more_than_layers(std::move(cut.buckets), whole.ends);
  auto ends = cut_buckets(*graph, whole.ends, cut.buckets);
  if (!ends) return tl::unexpected(ends.error());
  cut.ends = *std::move(ends);
  for (std::size_t stage = 0; stage < whole.slowness.size(); ++stage) {
    cut.slowness.insert(cut.slowness.end(), static_cast<std::size_t>(cut.buckets[stage]),
                        whole.slowness[stage]);
  }
  return cut;
}

}  // namespace penstock
