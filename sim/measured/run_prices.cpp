// Times one configuration for many candidate constants. Constants change durations but never the program. The
// program is therefore generated, lowered and compiled once. A candidate then prices the layers, fills a
// table of costs and runs the tape:
//
//     scenario --make()--> program, tape, peak       constants --step_seconds()--> costs --tape--> makespan

#include "sim/measured/run_prices.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "report/result/result.hpp"
#include "scenarios/model/device_model.hpp"
#include "scenarios/prepare/device_prices.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/flat_program.hpp"
#include "sim/engines/compile.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/runs/simulate.hpp"
#include "topology/unit_factors.hpp"

namespace penstock {
namespace {

constexpr double kSecondsPerMillisecond = 1e-3;

/// Returns the workload with other constants. The value of `sustained` is set for every precision, because a
/// workload uses only one of them.
Workload with_constants(Workload work, const DeviceConstants& constants) {
  work.device.sustained = constants.sustained;
  work.device.sustained_fp4 = constants.sustained;
  work.device.collectives = constants.collectives;
  work.device.step_fraction = constants.step_fraction;
  work.unexplained_expert_seconds = constants.expert_layer_ms * kSecondsPerMillisecond;
  return work;
}

}  // namespace

DeviceConstants own_constants(const Scenario& scenario) {
  const Workload& work = std::get<DeviceModel>(scenario.model).work;
  return {.sustained = sustained_factor(work),
          .collectives = work.device.collectives,
          .step_fraction = work.device.step_fraction,
          .expert_layer_ms = work.unexplained_expert_seconds / kSecondsPerMillisecond};
}

tl::expected<RunPrices, std::string> RunPrices::make(const Scenario& scenario) {
  auto prices = price_on_devices(scenario);
  if (!prices) return tl::unexpected(prices.error());
  auto experiment = prepare(prices->settled.scenario);
  if (!experiment) return tl::unexpected(experiment.error().message);
  SimulateOptions options;
  options.steady = SteadyState::skip;
  const auto result = simulate(*experiment, options);
  if (!result) return tl::unexpected(result.error().message);
  RunPrices run;
  // The peak does not depend on the constants, so the device's own are used.
  run.peak_bytes_ = highest_peak_bytes(*result);
  const FlatProgram flat =
      flatten(experiment->program, experiment->costs,
              {.channels = experiment->channels, .iterations = experiment->program.iterations});
  // simulate() has already returned an error if the program hangs.
  run.tape_ = compile(flat, experiment->channels, microbatch_groups(experiment->costs)).value();
  run.prices_ = *std::move(prices);
  run.experiment_ = *std::move(experiment);
  return run;
}

double RunPrices::step_seconds(const DeviceConstants& constants) const {
  Experiment experiment = experiment_;
  set_times(experiment.costs, prices_, with_constants(prices_.work, constants));
  return static_cast<double>(makespan_ns(tape_, tape_costs(tape_, experiment))) * kSecondsPerNanosecond;
}

}  // namespace penstock
