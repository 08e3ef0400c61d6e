// Measures the loss that a noisy profile causes. All trials plan at the same time. Then each different plan
// is simulated once, even if several trials found it:
//
//     profile --noise of level, trial--> disturbed profile --> plan --with_times_of(true profile)--> periods
//
//     regret = period of the trial's plan / period of the plan from the true profile - 1
//
// Tests: tests/sim/plan_regret_test.cpp.

#include "sim/planning/plan_regret.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/pipedream_partition.hpp"
#include "scenarios/partition/plan_options.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/mixed_bits.hpp"
#include "sim/engines/parallel_loop.hpp"
#include "sim/planning/plan_evaluation.hpp"
#include "sim/planning/plan_search.hpp"

namespace penstock {
namespace {

/// Returns the time with noise. `what` is the index of the random number of `key`, which is the same at every
/// level of noise.
Ns disturbed(Ns time, double noise, std::uint64_t key, std::uint64_t what) {
  return std::llround(static_cast<double>(time) * (1 + noise * (2 * even_draw(key, what) - 1)));
}

/// Returns the scenario with a noisy profile, such as another measurement might give.
Scenario disturbed(Scenario scenario, double noise, std::uint64_t seed, std::uint64_t trial) {
  // A random number depends only on the seed, the trial and its position in the order of the times. So it is
  // the same on any thread.
  const std::uint64_t key = mixed(seed ^ mixed(trial));
  std::uint64_t what = 0;
  for (Layer& layer : std::get<LayerGraph>(scenario.model).layers) {
    layer.forward_ns = disturbed(layer.forward_ns, noise, key, what++);
    layer.backward_ns = disturbed(layer.backward_ns, noise, key, what++);
  }
  return scenario;
}

/// All properties in which two plans for one scenario can differ. These are the layers and devices of each
/// stage, and the choices of the search by simulation: buckets of gradients and additional forwards.
struct PlanShape {
  // Layers and devices of each stage.
  std::vector<std::pair<std::vector<std::int32_t>, std::vector<std::int32_t>>> stages;
  std::vector<std::int32_t> buckets;
  std::vector<std::int32_t> warmup;

  friend auto operator<=>(const PlanShape&, const PlanShape&) = default;
};

PlanShape shape_of(const PlannedScenario& planned) {
  PlanShape shape{
      .stages = {}, .buckets = planned.scenario.shape.buckets, .warmup = planned.scenario.shape.warmup};
  shape.stages.reserve(planned.plan.stages.size());
  for (const PlannedStage& stage : planned.plan.stages)
    shape.stages.emplace_back(stage.layers, stage.devices);
  return shape;
}

using Planned = tl::expected<PlannedScenario, std::string>;

Planned planned_from_noise(const Scenario& truth, const PlanOptions& options, PlanRanking ranking,
                           const Scenario& profile) {
  auto planned = plan_by(ranking, profile, options);
  if (!planned) return planned;
  // The noisy profile chooses the plan; the true times price it.
  return with_times_of(*std::move(planned), truth);
}

/// Returns a plan for every trial of every level.
std::vector<Planned> plans_of(const Scenario& scenario, const PlanOptions& options, PlanRanking ranking,
                              const ProfileNoise& noise) {
  const auto trials = static_cast<std::size_t>(noise.trials);
  std::vector<Planned> plans(noise.levels.size() * trials);
  parallel_loop(plans.size(), [&](std::size_t i) {
    plans[i] = planned_from_noise(scenario, options, ranking,
                                  disturbed(scenario, noise.levels[i / trials], noise.seed, i % trials));
  });
  return plans;
}

using PlanPeriods = std::map<PlanShape, double>;

/// Returns the simulated period of every different plan.
tl::expected<PlanPeriods, std::string> simulated_periods(const std::vector<Planned>& plans) {
  // Plans with the same shape are equal, because all have the times of the true profile by now.
  std::map<PlanShape, std::size_t> first_of;
  for (std::size_t i = 0; i < plans.size(); ++i) first_of.try_emplace(shape_of(*plans[i]), i);
  const std::vector<std::pair<PlanShape, std::size_t>> different(first_of.begin(), first_of.end());
  std::vector<tl::expected<PlanEvaluation, std::string>> evaluations(different.size());
  parallel_loop(different.size(),
                [&](std::size_t i) { evaluations[i] = evaluate_plan(*plans[different[i].second]); });
  PlanPeriods periods;
  for (std::size_t i = 0; i < different.size(); ++i) {
    if (!evaluations[i]) return tl::unexpected(std::move(evaluations[i].error()));
    periods[different[i].first] = evaluations[i]->simulated_period_ns;
  }
  return periods;
}

/// Returns the regret of the periods. `best` is the period of the plan from the true profile.
Regret regret_of(std::vector<double> periods, double best) {
  std::ranges::sort(periods);
  const std::size_t middle = periods.size() / 2;
  const double median =
      periods.size() % 2 == 1 ? periods[middle] : (periods[middle - 1] + periods[middle]) / 2;
  return {.median = median / best - 1, .worst = periods.back() / best - 1};
}

/// Returns the result of the trials of one level. `truth` is the plan from the true profile.
RegretRow row_of(std::span<const Planned> trials, const PlannedScenario& truth,
                 const PlanPeriods& simulated) {
  const PlanShape best = shape_of(truth);
  RegretRow row;
  std::vector<double> recurrence_periods;
  std::vector<double> simulated_periods;
  for (const Planned& planned : trials) {
    const PlanShape shape = shape_of(*planned);
    row.other_plans += shape != best ? 1 : 0;
    recurrence_periods.push_back(planned->plan.period_ns);
    simulated_periods.push_back(simulated.at(shape));
  }
  row.recurrence = regret_of(std::move(recurrence_periods), truth.plan.period_ns);
  row.simulated = regret_of(std::move(simulated_periods), simulated.at(best));
  return row;
}

}  // namespace

tl::expected<std::vector<RegretRow>, std::string> plan_regret(const Scenario& scenario,
                                                              const PlanOptions& options,
                                                              const ProfileNoise& noise,
                                                              PlanRanking ranking) {
  auto truth = plan_by(ranking, scenario, options);
  // The true plan is priced like the trials' plans, so that the same plan has exactly the same period.
  if (truth) truth = with_times_of(*std::move(truth), scenario);
  if (!truth) return tl::unexpected(truth.error());
  if (truth->plan.period_ns <= 0)
    return tl::unexpected(std::string("the plan takes no time, so that none can take longer"));
  std::vector<Planned> plans = plans_of(scenario, options, ranking, noise);
  for (const Planned& plan : plans) {
    if (!plan) return tl::unexpected(plan.error());
  }
  // The true plan is simulated with the others. It comes last, because row_of() expects the trials of each
  // level before it.
  plans.push_back(*truth);
  const auto periods = simulated_periods(plans);
  if (!periods) return tl::unexpected(periods.error());
  const auto trials = static_cast<std::size_t>(noise.trials);
  std::vector<RegretRow> rows;
  for (std::size_t level = 0; level < noise.levels.size(); ++level) {
    rows.push_back(row_of(std::span(plans).subspan(level * trials, trials), *truth, *periods));
    rows.back().noise = noise.levels[level];
  }
  return rows;
}

}  // namespace penstock
