// Three kinds of model say less than stages do, each with one way to stages:
//
//   transformer on named devices  -> prices of its layers, summed by stage
//   costs fitted on measured runs -> times of its layers, summed by stage
//   layers, partition: pipedream  -> the partitioner's cuts
//
// All others are settled as they stand.

#include "scenarios/prepare/settled_scenario.hpp"

#include <string>
#include <utility>
#include <variant>

#include <tl/expected.hpp>

#include "scenarios/model/device_model.hpp"
#include "scenarios/model/fitted_model.hpp"
#include "scenarios/prepare/device_prices.hpp"
#include "scenarios/prepare/fitted_prices.hpp"
#include "scenarios/prepare/planned_partition.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {
namespace {

using Settled = tl::expected<SettledScenario, std::string>;

Settled on_devices(const Scenario& stated, const DeviceModel& model) {
  return price_on_devices(stated, model).map([](DevicePrices&& prices) {
    return SettledScenario{.scenario = std::move(prices.scenario),
                           .placed = std::move(prices.placed),
                           .copies = prices.trained.copies,
                           .trained = prices.trained};
  });
}

Settled by_fit(const Scenario& stated, const FittedModel& model) {
  return price_by_fit(stated, model).map([&](FittedPrices&& prices) {
    return SettledScenario{
        .scenario = std::move(prices.scenario), .placed = std::move(prices.placed), .copies = model.copies};
  });
}

}  // namespace

Settled settle(const Scenario& stated) {
  if (const auto* model = std::get_if<DeviceModel>(&stated.model)) return on_devices(stated, *model);
  if (const auto* model = std::get_if<FittedModel>(&stated.model)) return by_fit(stated, *model);
  return with_planned_partition(stated).map(
      [](Scenario&& scenario) { return SettledScenario{.scenario = std::move(scenario)}; });
}

}  // namespace penstock
