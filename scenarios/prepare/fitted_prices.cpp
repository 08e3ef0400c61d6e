// One copy of the pipeline stands for all, as it does on named devices (device_prices.cpp); what copies tell
// each other is in the step that was fitted.

#include "scenarios/prepare/fitted_prices.hpp"

#include <string>
#include <utility>

#include <tl/expected.hpp>

#include "scenarios/model/fitted_model.hpp"
#include "scenarios/prepare/fitted_figures.hpp"
#include "scenarios/prepare/pipeline_copy.hpp"
#include "scenarios/prepare/settled_scenario.hpp"
#include "scenarios/pricing/fitted_stages.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

tl::expected<SettledScenario, std::string> price_by_fit(const Scenario& scenario, const FittedModel& model) {
  if (scenario.shape.data_parallel > 1 || scenario.shape.sharding > 0 || !scenario.shape.buckets.empty()) {
    return tl::unexpected(
        std::string("schedule: copies of a model with fitted costs are parallel.data; leave data_parallel, "
                    "sharding and buckets out"));
  }
  auto copy = pipeline_copy(scenario, model.copies, {}, model.layers);
  if (!copy) return tl::unexpected(copy.error());
  FittedModel sized = model;
  sized.kind.micro_batch_size = copy->resolved.micro_batch_size;
  const auto stages = fitted_stages(*model.costs, {.kind = sized.kind,
                                                   .copies = model.copies,
                                                   .layers = copy->layers,
                                                   .rank_of_stage = copy->rank_of_stage});
  if (!stages) return tl::unexpected("model.fitted: " + stages.error());
  Scenario priced = scenario;
  priced.model = fitted_figures(sized, *stages);
  priced.batch = copy->batch;
  priced.batch.own_micro_batch_size = copy->resolved.micro_batch_size;
  priced.notes.push_back(fit_note(sized));
  return SettledScenario{
      .scenario = std::move(priced), .placed = std::move(copy->placed), .copies = model.copies};
}

}  // namespace penstock
