// Fills in the facts that depend only on the experiment in one place, so that every engine fills in the same
// ones.

#include "sim/runs/experiment_facts.hpp"

#include <cstdint>
#include <optional>

#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/trained_model.hpp"

namespace penstock {

namespace {

/// Returns nothing if the scenario does not price a model on named devices.
std::optional<ModelFacts> model_facts(const std::optional<TrainedModel>& trained) {
  if (!trained) return std::nullopt;
  return ModelFacts{.report = {.parameters = trained->parameters,
                               .active_parameters = trained->active_parameters,
                               .flops_per_sample = trained->flops_per_sample,
                               .devices = trained->devices},
                    .tokens_per_sample = static_cast<double>(trained->tokens_per_sample),
                    .peak_flops_per_second = trained->peak_flops_per_second};
}

}  // namespace

RunFacts facts_of_experiment(const Experiment& experiment) {
  return {.program = experiment.program,
          .costs = experiment.costs,
          .samples_per_microbatch = experiment.samples_per_microbatch,
          .kind = ResultKind::predicted,
          .scenario = experiment.name,
          .channels = experiment.channels,
          .price_per_device_hour = experiment.price_per_device_hour,
          .notes = experiment.notes,
          .pipeline_size = experiment.pipeline_size,
          .model = model_facts(experiment.trained)};
}

std::int32_t copies_of(const Experiment& experiment) {
  return experiment.trained ? experiment.trained->copies : 1;
}

}  // namespace penstock
