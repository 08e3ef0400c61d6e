#pragma once
// What a scenario is when nothing of its model is open any more (settle.hpp).

#include <cstdint>
#include <optional>

#include "scenarios/prepare/trained_model.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

/// A scenario whose model is stages or layers with stated cuts.
struct SettledScenario {
  Scenario scenario;
  std::int32_t copies = 1;                ///< of the pipeline, of which the scenario is one
  std::optional<TrainedModel> trained{};  ///< where a model is priced on named devices
};

}  // namespace penstock
