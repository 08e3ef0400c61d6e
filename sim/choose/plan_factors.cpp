// Simulates a plan with different sets of factors that the planner's recurrence ignores. Each row of the
// table needs two runs of simulated_period(). The first run has only this factor and shows its own effect.
// The second run has all factors up to this one, and shows how the difference between recurrence and
// simulation grows. The two effects differ if one factor hides another:
//
//     factor      alone        with those before it
//     transfers   {t}          {t}
//     ring        {r}          {t r}
//     latency     {l}          {t r l}
//     contention  {t r l c}    {t r l c}      switches others on as well, so both may be one run
//
// Tests: tests/sim/plan_evaluation_test.cpp.

#include "sim/choose/plan_search.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/partition/partition.hpp"
#include "scenarios/partition/pipedream_partition.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "schedules/ir/action.hpp"
#include "sim/sweep/parallel_loop.hpp"

namespace penstock {

namespace {

constexpr std::array kFactors = {PlanFactor::transfers,  PlanFactor::ring,    PlanFactor::latency,
                                 PlanFactor::contention, PlanFactor::overlap, PlanFactor::buckets,
                                 PlanFactor::depth,      PlanFactor::ends};

/// Returns the effects (PlanFactor) that can change the period of this plan. The effect of buckets is left
/// out if the plan has none.
std::vector<PlanFactor> factors_of(const PlannedScenario& planned) {
  std::vector<PlanFactor> factors(kFactors.begin(), kFactors.end());
  if (planned.scenario.shape.buckets.empty()) std::erase(factors, PlanFactor::buckets);
  return factors;
}

/// Returns all sets of effects (PlanFactor) to simulate, each once: the empty set, each effect alone, the
/// first two effects, the first three effects, and so on.
std::vector<FactorSet> sets_to_simulate(const std::vector<PlanFactor>& factors) {
  std::vector<FactorSet> sets = {FactorSet{}};
  FactorSet all;
  for (const PlanFactor factor : factors) {
    sets.push_back(FactorSet{}.with(factor));
    all = all.with(factor);
    sets.push_back(all);
  }
  std::ranges::sort(sets);
  // A factor may turn others on, so several sets may be equal.
  const auto doubles = std::ranges::unique(sets);
  sets.erase(doubles.begin(), doubles.end());
  return sets;
}

// FactorSet has an operator<, because it is the key of this map.
using PeriodBySet = std::map<FactorSet, StreamPeriod>;

tl::expected<PeriodBySet, std::string> simulated_periods(const PlannedScenario& planned) {
  const std::vector<FactorSet> sets = sets_to_simulate(factors_of(planned));
  std::vector<tl::expected<StreamPeriod, std::string>> simulated(sets.size());
  parallel_loop(sets.size(), [&](std::size_t i) { simulated[i] = simulated_period(planned, sets[i]); });
  PeriodBySet periods;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    if (!simulated[i]) return tl::unexpected(std::move(simulated[i].error()));
    periods[sets[i]] = *simulated[i];
  }
  return periods;
}

/// Returns the memory of the fullest device in bytes: as the planner's formula counts it, and as the
/// simulation finds it.
PlannedMemory memory_of(const PlanEvaluation& evaluation) {
  Bytes planned = 0;
  for (const PlannedStage& stage : evaluation.planned.plan.stages) planned = std::max(planned, stage.held);
  return {
      .planned = planned, .simulated = evaluation.peak_bytes(), .fits_simulated = !evaluation.out_of_memory};
}

/// Returns a text that says how the recurrence counts the time of a ring all-reduce. This depends on the
/// objective.
std::string_view ring_assumed(PlanObjective objective) {
  switch (objective) {
    case PlanObjective::maximum:
      return "the same, level by level";
    case PlanObjective::sum:
      return "4(m-1)/m of them over each link";
    case PlanObjective::maximum_printed:
      return "2(m-1) of them over one link";
  }
  return "";
}

}  // namespace

FactorMeaning meaning(PlanFactor factor, PlanObjective objective) {
  const bool adds_up = objective == PlanObjective::sum;
  switch (factor) {
    case PlanFactor::transfers:
      return {"both directions of a cut at once, each pair of devices by its own route",
              adds_up ? "one direction after the other, over a link for each replica of a stage"
                      : "one direction after the other, over one link"};
    case PlanFactor::ring:
      return {"2(m-1)/m of the weights over each link to reduce gradients among m devices",
              ring_assumed(objective)};
    case PlanFactor::latency:
      return {"messages arrive after their route's latency, reductions after 2(m-1) of them", "no latency"};
    case PlanFactor::contention:
      return {"simultaneous messages share a link (with the three above)", "a link for each"};
    case PlanFactor::overlap:
      return {"a device waits for the reduction before its next forward",
              adds_up ? "the same" : "compute goes on meanwhile"};
    case PlanFactor::buckets:
      return {"each bucket of gradients reduced once it is there (with contention and overlap)",
              "each stage's gradients as a whole"};
    case PlanFactor::depth:
      return {"as many minibatches in flight as 1F1B-RR admits", "so many that no stage waits for one"};
    case PlanFactor::ends:
      return {"a run that fills its pipeline and drains it again", "a stream without end"};
  }
  return {};
}

tl::expected<PlanFactors, std::string> plan_factors(const PlanEvaluation& evaluation) {
  const PlannedScenario& planned = evaluation.planned;
  if (planned.plan.period_ns <= 0)
    return tl::unexpected(std::string("the plan takes no time, so that no factor can be set against it"));
  auto periods = simulated_periods(planned);
  if (!periods) return tl::unexpected(std::move(periods.error()));
  PlanFactors factors{.objective = planned.objective,
                      .recurrence_ns = planned.plan.period_ns,
                      .ideal_ns = (*periods)[FactorSet{}].period_ns,
                      .rows = {},
                      .memory = memory_of(evaluation),
                      .notes = {}};
  FactorSet all;
  for (const PlanFactor factor : factors_of(planned)) {
    all = all.with(factor);
    factors.rows.push_back({.factor = factor,
                            .alone_ns = (*periods)[FactorSet{}.with(factor)].period_ns,
                            .with_those_before_ns = (*periods)[all].period_ns});
  }
  if (!std::ranges::all_of(*periods, [](const auto& period) { return period.second.is_exact; })) {
    factors.notes.emplace_back(
        "some factors leave no exact period: theirs is the mean over a long stretch of the stream");
  }
  return factors;
}

std::vector<FactorDifference> differing_factors(const PlanFactors& factors) {
  // The smallest difference that is an effect, as a fraction of the recurrence's period. Smaller differences
  // may come from rounding or from means.
  constexpr double kLeast = 1e-3;
  std::vector<FactorDifference> found;
  double before_ns = factors.ideal_ns;
  for (const FactorPeriods& row : factors.rows) {
    if (row.factor == PlanFactor::ends) continue;  // has an effect on runs that end, and not on streams
    const double difference_ns = row.with_those_before_ns - before_ns;
    if (std::abs(difference_ns) >= kLeast * factors.recurrence_ns)
      found.push_back({row.factor, difference_ns});
    before_ns = row.with_those_before_ns;
  }
  return found;
}

}  // namespace penstock
