#pragma once
// What a scenario is when nothing is open any more but its schedule (settle.hpp).

#include <cstdint>
#include <optional>

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

}  // namespace penstock
