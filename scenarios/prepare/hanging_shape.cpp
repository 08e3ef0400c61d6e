// Tries shapes in ascending order of ranks, then chunks, then microbatches, because fewer ranks are easier to
// read.

#include "scenarios/prepare/hanging_shape.hpp"

#include <cstdint>
#include <optional>
#include <utility>

#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {
namespace {

/// The largest number of actions in all tried shapes. One action takes about a microsecond.
constexpr std::int64_t kMostActions = 5'000'000;

std::optional<Experiment> hanging_experiment(Scenario scenario, const Shape& shape) {
  scenario.shape = shape;
  scenario.batch.microbatches = shape.microbatches;
  scenario.batch.global_batch_size.reset();  // it follows from the number of microbatches
  auto experiment = prepare(scenario);
  if (!experiment || !find_hang(experiment->program, experiment->channels, experiment->costs)) {
    return std::nullopt;
  }
  return *std::move(experiment);
}

}  // namespace

ShapedExperiment smallest_hanging_shape(const Scenario& scenario, Experiment hanging) {
  Shape whole = scenario.shape;
  whole.microbatches = hanging.program.microbatches;
  Shape tried = whole;
  std::int64_t actions = 0;
  for (tried.stages = 1; tried.stages <= whole.stages; ++tried.stages) {
    for (tried.virtual_stages = 1; tried.virtual_stages <= whole.virtual_stages; ++tried.virtual_stages) {
      for (tried.microbatches = 1; tried.microbatches <= whole.microbatches; ++tried.microbatches) {
        // F and B have one compute action each, and each of their messages has a SEND and a RECV.
        actions += std::int64_t{6} * tried.stages * tried.virtual_stages * tried.microbatches;
        if (actions > kMostActions) return {.experiment = std::move(hanging), .shape = whole};
        if (auto found = hanging_experiment(scenario, tried)) {
          return {.experiment = *std::move(found), .shape = tried};
        }
      }
    }
  }
  return {.experiment = std::move(hanging), .shape = whole};
}

}  // namespace penstock
