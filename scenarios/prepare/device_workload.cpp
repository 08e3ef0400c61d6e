// Computes the devices and microbatches of a workload. One rank of the program represents the tensor x
// context devices that share its stages. The program represents all copies of the pipeline:
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

/// Returns an error message if the schedule makes copies itself. Copies and their reductions are part of the
/// prices here, so they would count twice.
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

/// Returns the number of ranks. Virtual stages are on the same ranks, and a program file has its own number.
std::int32_t ranks_of(const Scenario& scenario) {
  return scenario.program ? scenario.program->rank_count() : scenario.shape.stages;
}

/// Returns the stated number of copies if the cluster has room for them. If none is stated, returns the
/// number that fills the cluster exactly.
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

/// Replaces the sharding that follows from `distributed_optimizer` by the sharding of the schedule, if the
/// schedule states it. Both decide whether the copies share the optimizer state, and a contradiction is an
/// error.
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
