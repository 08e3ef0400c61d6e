// Runs differ in how their times are found and what is read off them; whose they are is said in one place, so
// that a new way to run says all of it.

#include "sim/runs/experiment_facts.hpp"

#include <cstdint>

#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/trained_model.hpp"

namespace penstock {

RunFacts facts_of_experiment(const Experiment& experiment) {
  return {.program = experiment.program,
          .costs = experiment.costs,
          .samples_per_microbatch = experiment.samples_per_microbatch,
          .kind = ResultKind::predicted,
          .scenario = experiment.name,
          .channels = experiment.channels,
          .price_per_device_hour = experiment.price_per_device_hour,
          .notes = experiment.notes,
          .pipeline_size = experiment.pipeline_size};
}

std::int32_t copies_of(const Experiment& experiment) {
  return experiment.trained ? experiment.trained->copies : 1;
}

Result with_model_rates(Result result, const Experiment& experiment) {
  if (!experiment.trained) return result;
  const TrainedModel& trained = *experiment.trained;
  result.model = ModelReport{.parameters = trained.parameters,
                             .active_parameters = trained.active_parameters,
                             .flops_per_sample = trained.flops_per_sample,
                             .devices = trained.devices};
  const auto devices = static_cast<double>(trained.devices);
  const double samples = result.throughput.samples_per_second;
  const double tokens = samples * static_cast<double>(trained.tokens_per_sample);
  const double flops = samples * trained.flops_per_sample / devices;
  result.throughput.model = ModelRates{.tokens_per_second = tokens,
                                       .tokens_per_second_per_device = tokens / devices,
                                       .model_flops_per_second_per_device = flops,
                                       .mfu = flops / trained.peak_flops_per_second};
  return result;
}

}  // namespace penstock
