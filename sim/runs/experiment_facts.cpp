// Runs differ in how their times are found and what is read off them; whose they are is said in one place, so
// that a new way to run says all of it.

#include "sim/runs/experiment_facts.hpp"

#include <cstdint>
#include <optional>

#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/trained_model.hpp"

namespace penstock {

namespace {

/// Nothing where no model is priced on named devices.
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
