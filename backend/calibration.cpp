#include "backend/calibration.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <tl/expected.hpp>

#include "backend/in_process_transport.hpp"
#include "backend/module_family.hpp"
#include "backend/thread_run.hpp"
#include "scenarios/experiment.hpp"
#include "schedules/action.hpp"
#include "schedules/cost_table.hpp"
#include "schedules/flat_program.hpp"
#include "schedules/generators.hpp"
#include "schedules/lower.hpp"
#include "schedules/program.hpp"

namespace penstock {
namespace {

/// The median makespan of the naive schedule with equal actions.
tl::expected<Ns, std::string> naive_makespan(std::int32_t stages, std::int32_t microbatches,
                                             const CalibrationOptions& options) {
  auto program = generate("naive", {.stages = stages, .microbatches = microbatches})
                     .and_then([](const Program& generated) { return lower(generated); });
  if (!program) return tl::unexpected(std::move(program.error()));
  CostTable costs;
  costs.stages.resize(static_cast<std::size_t>(stages));
  for (StageCost& cost : costs.stages) cost.forward_ns = cost.backward_ns = options.action_ns;
  const Experiment experiment{.name = "calibration",
                              .program = *std::move(program),
                              .costs = std::move(costs),
                              .cluster = {},
                              .channels = {},
                              .notes = {}};
  const auto result = run_on_threads(
      experiment, [](const FlatProgram&) { return LinkPace{}; }, {.warmup = 1, .repeats = options.repeats},
      OccupyFamily(experiment, {}));
  if (!result) return tl::unexpected(result.error().message);
  return result->makespan_ns;
}

}  // namespace

tl::expected<ThreadCalibration, std::string> calibrate_threads(const CalibrationOptions& options) {
  const std::int32_t microbatches = std::max(1, options.actions / 2);
  const auto alone = naive_makespan(1, microbatches, options);
  if (!alone) return tl::unexpected(alone.error());
  const auto passed_on = naive_makespan(2, microbatches, options);
  if (!passed_on) return tl::unexpected(passed_on.error());
  // Alone: 2M actions. Passed on: 4M actions and 2M hops, all one after the other.
  const Ns actions_alone = Ns{2} * microbatches;
  const Ns of_actions = *alone - actions_alone * options.action_ns;
  const Ns of_hops = *passed_on - 2 * *alone;
  return ThreadCalibration{.action_overhead_ns = std::max<Ns>(0, of_actions / actions_alone),
                           .link_latency_ns = std::max<Ns>(0, of_hops / actions_alone)};
}

CostTable with_overhead(CostTable costs, Ns overhead_ns) {
  for (StageCost& cost : costs.stages) {
    for (Ns* duration : {&cost.forward_ns, &cost.backward_ns, &cost.backward_input_ns,
                         &cost.backward_weight_ns, &cost.recompute_ns}) {
      *duration += overhead_ns;
    }
  }
  return costs;
}

}  // namespace penstock
