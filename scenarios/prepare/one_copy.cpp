// Prepares one copy of a pipeline instead of all, if copies are a degree of parallelism. All copies do the
// same work at the same time:
//
//   transformer on named devices  -> the copies that its devices make
//   costs fitted on measured runs -> the copies that are stated
//   layers, partition: pipedream  -> the partitioner's cuts, in one program of all copies
//
// The other copies only affect the price of a step, for which all copies wait.

#include "scenarios/prepare/one_copy.hpp"

#include <string>
#include <utility>
#include <variant>

#include <tl/expected.hpp>

#include "scenarios/model/device_model.hpp"
#include "scenarios/model/fitted_model.hpp"
#include "scenarios/prepare/device_workload.hpp"
#include "scenarios/prepare/planned_partition.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/gather.hpp"

namespace penstock {
namespace {

using Copy = tl::expected<OneCopy, std::string>;

Copy on_devices(const Scenario& stated, const DeviceModel& model) {
  auto work = device_workload(stated, model);
  if (!work) return tl::unexpected(work.error());
  OneCopy copy{.scenario = stated, .copies = work->parallel.data, .work = *std::move(work)};
  // The sharding is already part of the workload's degrees, and the price of a step contains its
  // communication. The program has only one copy, so it cannot shard. The barrier represents the norm of all
  // gradients, for which every rank waits before its update.
  copy.scenario.shape.sharding.reset();
  copy.scenario.shape.gather = Gather::microbatch;
  copy.scenario.shape.barrier = true;
  if (copy.scenario.program) copy.scenario.program->barrier = true;
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

}  // namespace penstock
