// A rank of the program stands for the tensor x context devices that share its stages, and the program for
// all copies of the pipeline:
//
//   devices = tensor x context x ranks x copies
//   microbatches of a copy = global batch / (micro batch x copies)

#include "scenarios/prepare/device_workload.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/model/device_model.hpp"
#include "scenarios/pricing/parallel.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/pricing/workload_faults.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/shape.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {
namespace {

using Fault = std::optional<std::string>;

/// Copies and their reductions are priced, not simulated: a schedule that makes some as well would count them
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

/// Virtual stages lie on the same ranks; a program file knows its own.
std::int32_t ranks_of(const Scenario& scenario) {
  return scenario.program ? scenario.program->rank_count() : scenario.shape.stages;
}

/// Those that are stated, if the cluster has room for them, or as many as fill it exactly.
tl::expected<std::int32_t, std::string> copies_of(const DeviceModel& model, std::int32_t ranks) {
  const Parallel& degrees = model.work.parallel;
  // Wide, as each of these numbers is what a file says, and nobody has compared them with the cluster yet.
  // Once they have passed here, products of degrees count devices that are there and fit 32 bits.
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

/// Puts the sharding that the schedule states, if it does, in the place of what `distributed_optimizer`
/// amounts to. Both say whether the optimizer's state is shared out, and must not contradict each other.
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
  if (const Fault fault = fault_of(work)) return tl::unexpected(*fault);
  return work;
}

}  // namespace penstock
