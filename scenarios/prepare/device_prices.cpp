// All copies of a pipeline do the same at the same time, so one of them is priced, as a scenario of stages:
//
//   degrees of parallelism -> one copy: its program, its layers by stage
//                          -> their prices -> costs, links, notes
//
// What copies tell each other is no message of the program: the part of it that nothing hides is in STEP,
// which lasts equally long on all ranks, since all of them wait for the norm of all gradients before they
// update.

#include "scenarios/prepare/device_prices.hpp"

#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/model/device_model.hpp"
#include "scenarios/prepare/device_figures.hpp"
#include "scenarios/prepare/device_notes.hpp"
#include "scenarios/prepare/device_workload.hpp"
#include "scenarios/prepare/pipeline_copy.hpp"
#include "scenarios/prepare/trained_model.hpp"
#include "scenarios/pricing/chain_costs.hpp"
#include "scenarios/pricing/copy_costs.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/stage_prices.hpp"
#include "scenarios/pricing/step_prices.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/cost_table.hpp"

namespace penstock {
tl::expected<DevicePrices, std::string> price_on_devices(const Scenario& scenario, const DeviceModel& model) {
  auto work = device_workload(scenario, model);
  if (!work) return tl::unexpected(work.error());
  Scenario priced = scenario;
  // Nothing of the other copies but their part in a step's price, and that all wait for each other there.
  priced.shape.sharding = 0;
  priced.shape.barrier = true;
  if (priced.program) priced.program->barrier = true;
  auto copy = pipeline_copy(priced, work->parallel.data, model.split, std::ssize(work->model.layers));
  if (!copy) return tl::unexpected(copy.error());
  work->micro_batch_size = copy->resolved.micro_batch_size;
  priced.batch = copy->batch;
  priced.batch.own_micro_batch_size = work->micro_batch_size;
  const auto costs =
      copy_costs(*work, *model.kernels, copy->layers, copy->rank_of_stage, copy->resolved.microbatches);
  if (!costs) return tl::unexpected(costs.error());
  priced.cluster.shape = links_between_stages(*work);
  priced.cluster.built.reset();
  if (auto& price = priced.cluster.price_per_device_hour)
    *price *= work->parallel.devices_per_rank() * static_cast<double>(work->parallel.data);
  priced.model = figures_of_stages(*costs);
  for (std::string& note : device_notes(*work, model.split)) priced.notes.push_back(std::move(note));
  return DevicePrices{.settled = {.scenario = std::move(priced),
                                  .placed = std::move(copy->placed),
                                  .copies = work->parallel.data,
                                  .trained = trained_by(*work)},
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
