// Computes the costs of stages that a scenario leaves open. The program gives the number of stages and their
// ranks, and prices become stage figures, as if the scenario stated them. All other models are returned
// unchanged.

#include "scenarios/prepare/settle.hpp"

#include <string>
#include <utility>
#include <variant>

#include <tl/expected.hpp>

#include "scenarios/model/fitted_model.hpp"
#include "scenarios/prepare/device_prices.hpp"
#include "scenarios/prepare/fitted_prices.hpp"
#include "scenarios/prepare/one_copy.hpp"
#include "scenarios/prepare/schedule_in_force.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

tl::expected<SettledScenario, std::string> settle(OneCopy copy, const ScheduleInForce& in_force,
                                                  const Program& placed) {
  if (copy.work) {
    return device_prices(std::move(copy), in_force, placed).map([](DevicePrices&& prices) {
      return std::move(prices.settled);
    });
  }
  if (std::holds_alternative<FittedModel>(copy.scenario.model))
    return fitted_prices(std::move(copy), in_force, placed);
  return SettledScenario{.scenario = std::move(copy.scenario)};
}

}  // namespace penstock
