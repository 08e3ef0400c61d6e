#pragma once
// What a scenario leaves open beside its schedule: what its stages cost where its model is priced on devices
// or by fitted costs, and where its layers are cut where that is planned. Used by experiment.cpp.

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "scenarios/prepare/trained_model.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// A scenario whose model is stages or layers with stated cuts.
struct SettledScenario {
  Scenario scenario;
  std::optional<Program> placed{};        ///< placed_program() of it, where prices have asked for it
  std::int32_t copies = 1;                ///< of the pipeline, of which the scenario is one
  std::optional<TrainedModel> trained{};  ///< where a model is priced on named devices
};

/// Errors: those of price_on_devices(), price_by_fit() and with_planned_partition().
tl::expected<SettledScenario, std::string> settle(const Scenario& stated);

}  // namespace penstock
