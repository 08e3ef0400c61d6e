#pragma once
// Finds and simulates pipeline plans, for `penstock plan`. search_plan() finds the plan with the shortest
// simulated period. evaluate_plan() simulates one plan. plan_front() compares it with plans for parts of the
// cluster. plan_regret() measures the loss that a noisy profile causes.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/partition/partition.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// A plan from which the search started, with its predicted and simulated figures.
struct PlanCandidate {
  std::string name;         ///< for example "two stages 15-1 at 33"
  double predicted_ns = 0;  ///< period that a recurrence predicts
  double simulated_ns = 0;  ///< steady period; infinite if the plan hangs with the scenario's channels
  bool is_exact = true;     ///< true: simulated_ns is an exact period; false: it is a mean over rounds
  Bytes peak_bytes = 0;     ///< simulated peak of the fullest device
  bool fits = true;         ///< true if the peak is within the memory limit
};

struct SearchedPlan {
  PlannedScenario planned;
  std::vector<PlanCandidate> candidates;  ///< in the order in which they were tried
  std::int64_t simulations = 0;
  std::int64_t pruned = 0;   ///< number of starts that were not simulated, because a bound excluded them
  std::int64_t actions = 0;  ///< number of simulated actions of all plans
  /// The number of starts that were not tried, because the budget of actions was used up.
  std::int64_t left_out = 0;
  bool ran_out = false;    ///< true if the budget of actions ended before all starts and moves were tried
  bool tried_all = false;  ///< true if every plan with its devices in order was tried or excluded by a bound
};

/// The limits at which a search ends.
struct PlanBudget {
  std::int64_t simulations = 2000;
  /// The limit of simulated actions in all plans together. The default takes about half a minute. Plans for
  /// many devices need streams of millions of actions.
  std::int64_t actions = std::int64_t{1} << 27;
};

/// Returns the plan with the shortest simulated steady period within the memory limit. Among plans with
/// equal periods, it prefers fewer devices, and then less memory. `options` state the form and the memory
/// limit; their objective has no effect. The search ends when the budget is used up. After half of the
/// budgeted actions, it tries only one start of each family. Equal inputs give equal plans. Errors: the
/// errors of planning_task(); no tried plan fits.
tl::expected<SearchedPlan, std::string> search_plan(const Scenario& scenario, const PlanOptions& options,
                                                    const PlanBudget& budget = {});

/// The measure by which plans are ranked: the simulated period, or the period of a recurrence.
enum class PlanRanking : std::uint8_t { simulated, recurrence };

/// Returns only the plan of search_plan() or of plan_scenario(), depending on `ranking`. The search gets a
/// twentieth of the usual budget, because callers need many plans. Errors: the errors of search_plan() or
/// plan_scenario().
tl::expected<PlannedScenario, std::string> plan_by(PlanRanking ranking, const Scenario& scenario,
                                                   const PlanOptions& options);

/// A plan that a recurrence or a search has made, with its simulated figures.
struct PlanEvaluation {
  PlannedScenario planned;
  double simulated_period_ns = 0;  ///< steady time between two minibatches
  std::vector<Bytes> stage_peaks;  ///< for each stage, the simulated peak of its fullest device
  bool out_of_memory = false;      ///< true if the simulated peak exceeds the memory of some device
  double bytes_per_sample = 0;     ///< bytes that all devices together send for a sample
  double data_parallel_bytes_per_sample = 0;  ///< the same for data parallelism on as many devices
  std::vector<std::string> notes;

  /// Returns the number of ranks of the plan. Each rank has devices_per_rank() devices.
  std::int32_t devices() const;
  std::int32_t devices_per_rank() const;            ///< Returns the tensor-parallel degree.
  double samples_per_second() const;                ///< Returns the simulated rate.
  Bytes peak_bytes() const;                         ///< Returns the simulated peak of the fullest device.
  double device_hours_per_million_samples() const;  ///< Returns the hours of all devices of all ranks.
  /// Returns the cost of a million samples, or nothing if the cluster has no price.
  std::optional<double> cost_per_million_samples() const;
  std::string configuration() const;  ///< Returns the numbers of replicas: "15-1".
};

/// Makes a plan for the scenario by a recurrence, simulates it, and returns its figures. Errors: the errors
/// of plan_scenario() and of the simulation.
tl::expected<PlanEvaluation, std::string> evaluate_plan(const Scenario& scenario, const PlanOptions& options);

/// Simulates an existing plan. Error: that of the simulation.
tl::expected<PlanEvaluation, std::string> evaluate_plan(PlannedScenario planned);

/// Returns the Pareto front of plans: those to which no other plan is superior in time, memory and cost.
/// They are sorted by devices and then by period. The front compares `known` with replicated and straight
/// plans for parts of the cluster. The parts are 1, 2 and so on devices of one server, and then 1, 2 and so
/// on whole servers. Parts of a uniform cluster have 1, 2, 4 and so on devices. A cluster that is defined
/// link by link has no parts.
std::vector<PlanEvaluation> plan_front(const Scenario& scenario, const PlanOptions& options,
                                       PlanRanking ranking = PlanRanking::recurrence,
                                       const std::optional<PlanEvaluation>& known = std::nullopt);

/// The noise that plan_regret() adds to a profile. Each forward and backward time of a layer is multiplied by
/// a random factor, uniform in [1 - noise, 1 + noise]. The random number depends only on the seed, the trial
/// and the layer. So a trial changes each time in the same direction at every level of noise.
struct ProfileNoise {
  std::vector<double> levels = {0.05, 0.1, 0.2};  ///< levels of the noise, each from 0 to 1
  std::int32_t trials = 20;                       ///< number of trials at each level, >= 1
  std::uint64_t seed = 1;
};

/// The regret at one level of noise, over all trials. The regret of a trial is the relative difference
/// between the period of its plan and the period of the plan from the true profile. Both periods are
/// computed with the true times.
struct Regret {
  double median = 0;
  double worst = 0;

  friend bool operator==(const Regret&, const Regret&) = default;
};

/// The results of all trials at one level of noise.
struct RegretRow {
  double noise = 0;
  std::int32_t other_plans = 0;  ///< number of trials whose plan differs from that of the true profile
  Regret recurrence{};           ///< regret by the recurrence's periods; never below 0
  /// The regret by simulated periods. It is below 0 if a noisy profile led, by chance, to a better plan.
  Regret simulated{};

  friend bool operator==(const RegretRow&, const RegretRow&) = default;
};

/// Returns the regret of plans that are made from noisy profiles, at each level of noise. The periods of
/// the plans are computed with the true profile, on all cores. Equal inputs give equal results on any
/// number of cores. Errors: the errors of evaluate_plan(); the plan of the true profile takes no time.
tl::expected<std::vector<RegretRow>, std::string> plan_regret(const Scenario& scenario,
                                                              const PlanOptions& options,
                                                              const ProfileNoise& noise,
                                                              PlanRanking ranking = PlanRanking::recurrence);

}  // namespace penstock
