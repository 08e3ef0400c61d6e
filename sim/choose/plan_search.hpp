#pragma once
// Plans that the simulator ranks. search_plan() finds the plan with the best simulated period,
// evaluate_plan() simulates one plan beside its competitors, and plan_regret() says what a noisy profile
// costs. `penstock plan` prints them.

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

/// A start of the search that was simulated.
struct PlanCandidate {
  std::string name;         ///< for example "two stages 15-1 at 33"
  double predicted_ns = 0;  ///< period that a recurrence predicts
  double simulated_ns = 0;  ///< steady period; infinite if the plan hangs under the scenario's channels
  bool is_exact = true;     ///< true: the stream repeats exactly; false: simulated_ns is a mean over rounds
  Bytes peak_bytes = 0;     ///< simulated peak of the fullest device
  bool fits = true;         ///< the peak is within the memory limit
};

struct SearchedPlan {
  PlannedScenario planned;
  std::vector<PlanCandidate> candidates;  ///< in the order of the trials
  std::int64_t simulations = 0;
  std::int64_t pruned = 0;    ///< starts that were not simulated because a bound ruled them out
  std::int64_t actions = 0;   ///< simulated actions of all plans
  std::int64_t left_out = 0;  ///< starts that were not tried because the budget of actions was used up
  bool ran_out = false;       ///< the budget of actions ended before all starts and moves were tried
  bool tried_all = false;     ///< every plan with its devices in order was tried or excluded by a bound
};

/// The limits at which a search ends.
struct PlanBudget {
  std::int64_t simulations = 2000;
  /// Limit of simulated actions. Plans for many devices need streams of millions of actions; the limit means
  /// about half a minute.
  std::int64_t actions = std::int64_t{1} << 27;
};

/// Finds the plan with the shortest simulated steady period within the memory limit. Of equal plans it takes
/// one on the fewest devices, then the one with the lowest peak memory. `options` set the form and the limit;
/// their objective is not used. When the budget is used up, no further move is tried. After half of its
/// actions only one start of each family is tried. Equal input gives an equal plan. Errors: the errors of
/// planning_task(), and that no plan that was tried fits.
tl::expected<SearchedPlan, std::string> search_plan(const Scenario& scenario, const PlanOptions& options,
                                                    const PlanBudget& budget = {});

/// The judge of plans: the simulator, or only a recurrence.
enum class PlanRanking : std::uint8_t { simulated, recurrence };

/// Returns only the plan. A search by simulation has a smaller budget here, for callers that need many plans.
/// Errors: the errors of search_plan() or plan_scenario().
tl::expected<PlannedScenario, std::string> plan_by(PlanRanking ranking, const Scenario& scenario,
                                                   const PlanOptions& options);

// Evaluates a PipeDream plan by simulation, together with the competing plans for fewer devices. `penstock
// plan` prints the result.

/// The prediction of a plan by the recurrence, and its simulation.
struct PlanEvaluation {
  PlannedScenario planned;
  double simulated_period_ns = 0;  ///< time between two minibatches of a stream that fills the pipeline
  std::vector<Bytes> stage_peaks;  ///< simulated peak of the fullest device of each stage
  bool out_of_memory = false;      ///< the simulation exceeds the memory of some device
  double bytes_per_sample = 0;     ///< bytes that all devices send (bytes_per_minibatch())
  double data_parallel_bytes_per_sample = 0;  ///< bytes of data parallelism on as many devices
  std::vector<std::string> notes;

  /// Returns the number of ranks of the plan. Each has devices_per_rank() devices.
  std::int32_t devices() const;
  std::int32_t devices_per_rank() const;  ///< Returns the devices that share each layer (tensor parallelism).
  double samples_per_second() const;      ///< Returns the simulated rate.
  Bytes peak_bytes() const;               ///< Returns the simulated peak of the fullest device.
  double device_hours_per_million_samples() const;  ///< Counts all devices of all ranks.
  /// Returns nothing if the cluster has no price.
  std::optional<double> cost_per_million_samples() const;
  std::string configuration() const;  ///< Returns the replicas of the stages, for example "15-1".
};

/// Plans and simulates. Errors: the errors of plan_scenario() and of the simulation.
tl::expected<PlanEvaluation, std::string> evaluate_plan(const Scenario& scenario, const PlanOptions& options);

/// Simulates an existing plan. Errors: the errors of the simulation.
tl::expected<PlanEvaluation, std::string> evaluate_plan(PlannedScenario planned);

/// Returns the plans that no other plan beats in time, memory and cost, sorted by devices and then by period.
/// It compares `known` with replicated and straight plans for parts of the cluster. The parts are 1 to all
/// devices of a server, then whole servers. Parts of a uniform cluster have 1, 2, 4 and so on devices. A
/// cluster that is given link by link is used only as a whole.
std::vector<PlanEvaluation> plan_front(const Scenario& scenario, const PlanOptions& options,
                                       PlanRanking ranking = PlanRanking::recurrence,
                                       const std::optional<PlanEvaluation>& known = std::nullopt);

// The loss of a plan that was made from a noisy profile. `penstock plan --noise` prints it.

/// The noise of profiles. Each forward and backward time of a layer is multiplied by its own factor, drawn
/// uniformly from [1 - noise, 1 + noise]. A random number is a function of the seed, the trial and the layer.
/// So at every level of noise, a trial changes each time in the same direction.
struct ProfileNoise {
  std::vector<double> levels = {0.05, 0.1, 0.2};  ///< half-widths of the noise, each 0 to 1
  std::int32_t trials = 20;                       ///< trials at each level, >= 1
  std::uint64_t seed = 1;
};

/// The relative increase of a plan's period over the plan made from the true profile, over all trials. Both
/// periods are computed with the true times.
struct Regret {
  double median = 0;
  double worst = 0;

  friend bool operator==(const Regret&, const Regret&) = default;
};

/// All trials at one level of noise.
struct RegretRow {
  double noise = 0;
  std::int32_t other_plans = 0;  ///< trials with another plan than that for the true profile
  Regret recurrence{};           ///< regret of the recurrence's period; never below 0
  /// Regret of the simulated period; below 0 if a noisy profile led to a better plan by chance.
  Regret simulated{};

  friend bool operator==(const RegretRow&, const RegretRow&) = default;
};

/// Makes plans from noisy profiles and computes their periods with the true profile, on all cores. Equal
/// input gives equal output on any number of cores. Errors: the errors of evaluate_plan(), and a plan that
/// takes no time.
tl::expected<std::vector<RegretRow>, std::string> plan_regret(const Scenario& scenario,
                                                              const PlanOptions& options,
                                                              const ProfileNoise& noise,
                                                              PlanRanking ranking = PlanRanking::recurrence);

}  // namespace penstock
