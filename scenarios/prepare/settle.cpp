// Three kinds of model say less than stages do, each with one way to stages:
//
//   transformer on named devices  -> prices of its layers, summed by stage
//   costs fitted on measured runs -> times of its layers, summed by stage
//   layers, partition: pipedream  -> the partitioner's cuts
//
// All others are settled as they stand.

#include "scenarios/prepare/settle.hpp"

#include <string>
#include <utility>
#include <variant>

#include <tl/expected.hpp>

#include "scenarios/model/device_model.hpp"
#include "scenarios/model/fitted_model.hpp"
#include "scenarios/prepare/device_prices.hpp"
#include "scenarios/prepare/fitted_prices.hpp"
#include "scenarios/prepare/planned_partition.hpp"
#include "scenarios/prepare/settled_scenario.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

tl::expected<SettledScenario, std::string> settle(const Scenario& stated) {
  if (const auto* model = std::get_if<DeviceModel>(&stated.model)) {
    return price_on_devices(stated, *model).map([](DevicePrices&& prices) {
      return std::move(prices.settled);
    });
  }
  if (const auto* model = std::get_if<FittedModel>(&stated.model)) return price_by_fit(stated, *model);
  return with_planned_partition(stated).map(
      [](Scenario&& scenario) { return SettledScenario{.scenario = std::move(scenario)}; });
}

}  // namespace penstock
