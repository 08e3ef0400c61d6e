// One of the copies of a pipeline is priced, as a scenario of stages:
//
//   degrees of parallelism, program -> layers by stage -> their prices -> costs, links, notes
//
// What copies tell each other is no message of the program: the part of it that nothing hides is in STEP,
// which lasts equally long on all ranks, since all of them wait for the norm of all gradients before they
// update.

#include "scenarios/prepare/device_prices.hpp"

#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/model/device_model.hpp"
#include "scenarios/prepare/balanced_split.hpp"
#include "scenarios/prepare/device_figures.hpp"
#include "scenarios/prepare/device_notes.hpp"
#include "scenarios/prepare/one_copy.hpp"
#include "scenarios/prepare/placed_program.hpp"
#include "scenarios/prepare/schedule_in_force.hpp"
#include "scenarios/prepare/trained_model.hpp"
#include "scenarios/pricing/chain_costs.hpp"
#include "scenarios/pricing/copy_costs.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/level_layers.hpp"
#include "scenarios/pricing/stage_prices.hpp"
#include "scenarios/pricing/step_prices.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/return_if_error.hpp"

namespace penstock {
namespace {

/// The layers of each stage, by the rule in force. Errors: those of split_layers(), and more stages than can
/// be given layers.
tl::expected<std::vector<std::int64_t>, std::string> layers_by_stage(const DeviceModel& model,
                                                                     const Workload& work,
                                                                     const StatedSchedule& schedule,
                                                                     const Program& placed) {
  const auto layers = std::ssize(work.model.layers);
  const std::int32_t stages = placed.stage_count();
  if (rule_in_force(model.split, layers, stages) != LayerSplit::Rule::balanced)
    return split_layers(model.split, layers, stages);
  if (has_layers_for(layers, stages)) return balanced_split(work, *model.kernels, schedule, placed);
  return tl::unexpected(
      fmt::format("{} layers are too few for {} stages: each needs one, but for the first and the last; "
                  "choose fewer stages or virtual stages",
                  layers, stages));
}

}  // namespace

tl::expected<DevicePrices, std::string> device_prices(OneCopy copy, const ScheduleInForce& in_force,
                                                      const Program& placed) {
  const auto model = std::get<DeviceModel>(copy.scenario.model);
  Workload work = *std::move(copy.work);
  work.micro_batch_size = in_force.batch.micro_batch_size;
  auto layers = layers_by_stage(model, work, in_force.schedule, placed);
  if (!layers) return tl::unexpected(layers.error());
  std::vector<std::int32_t> ranks = placed.placement.ranks_of_stages();
  const std::int64_t microbatches = in_force.batch.microbatches;
  const auto costs = copy_costs(work, *model.kernels, *layers, ranks, microbatches);
  if (!costs) return tl::unexpected(costs.error());
  Scenario priced = std::move(copy.scenario);
  // From here on a rank is one device. The links are those of the copy; what was built for the scenario's own
  // cluster is another one.
  priced.cluster.shape = links_between_stages(work);
  priced.cluster.built.reset();
  // So that the price of a rank is that of all devices that it stands for, in all copies.
  if (auto& price = priced.cluster.price_per_device_hour)
    *price *= work.parallel.devices_per_rank() * static_cast<double>(work.parallel.data);
  priced.model = figures_of_stages(*costs);
  priced.batch = in_force.stated;
  // Priced for this very microbatch: nothing is left to scale.
  priced.batch.own_micro_batch_size = work.micro_batch_size;
  for (std::string& note : device_notes(work, model.split, *layers)) priced.notes.push_back(std::move(note));
  return DevicePrices{
      .settled = {.scenario = std::move(priced), .copies = work.parallel.data, .trained = trained_by(work)},
      .work = work,
      .kernels = model.kernels,
      .layers = *std::move(layers),
      .rank_of_stage = std::move(ranks),
      .microbatches = microbatches};
}

tl::expected<DevicePrices, std::string> price_on_devices(const Scenario& scenario) {
  PENSTOCK_ASSIGN_OR_RETURN(OneCopy copy, one_copy(scenario));
  PENSTOCK_ASSIGN_OR_RETURN(const ScheduleInForce in_force, schedule_in_force(copy.scenario, copy.copies));
  PENSTOCK_ASSIGN_OR_RETURN(const Program placed, placed_program(in_force.schedule));
  return device_prices(std::move(copy), in_force, placed);
}

// Not checked against 64 bits: the constants of a fit are within factors of those that device_prices() has
// checked.
void set_times(CostTable& costs, const DevicePrices& prices, const Workload& work) {
  const std::vector<std::int32_t>& ranks = prices.rank_of_stage;
  const std::vector<StagePrice> stages = price_stages(work, *prices.kernels, prices.layers, ranks);
  costs = chain_costs(stages, ranks, longest_step(work, *prices.kernels, stages, ranks), prices.microbatches);
}

}  // namespace penstock
