// A configuration is written into a copy of the request's scenario, so that what is priced here and what
// `simulate` prices is one and the same.

#include "sim/tuning/configuration.hpp"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "scenarios/model/device_model.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/parallel.hpp"
#include "scenarios/read/batch.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

std::vector<std::string> default_tuned_schedules() { return {"1f1b", "interleaved", "zb-h1", "zb-v"}; }

std::vector<LayerSplit> default_layer_splits() {
  return {{.rule = LayerSplit::Rule::even}, {.rule = LayerSplit::Rule::ends_one_less}};
}

std::int64_t device_count(const Configuration& configuration) {
  return std::int64_t{configuration.tensor} * configuration.context * configuration.data *
         configuration.stages;
}

Scenario scenario_of(const TuneRequest& request, const Configuration& configuration) {
  Scenario scenario = request.base;
  auto& model = std::get<DeviceModel>(scenario.model);
  Parallel& parallel = model.work.parallel;
  parallel.tensor = configuration.tensor;
  parallel.context = configuration.context;
  parallel.context_exchange = configuration.context_exchange;
  parallel.expert = configuration.expert;
  parallel.distributed_optimizer = configuration.sharding > 0;
  model.work.recompute = configuration.recompute;
  model.split = request.layer_splits[configuration.layer_split];
  model.copies = configuration.data;
  model.devices = device_count(configuration);
  scenario.schedule = std::string(configuration.schedule);
  scenario.program.reset();
  scenario.shape.stages = configuration.stages;
  // A schedule whose rule fixes v takes no other.
  const ScheduleInfo* schedule = find_schedule(configuration.schedule);
  scenario.shape.virtual_stages = schedule->chunks > 0 ? 1 : configuration.virtual_stages;
  scenario.batch = Batch{.micro_batch_size = configuration.micro_batch_size,
                         .global_batch_size = request.global_batch_size,
                         .microbatches = {}};
  return scenario;
}

}  // namespace penstock
