#pragma once
// Finds and simulates pipeline plans, for `penstock plan`. search_plan() finds the plan with the shortest
// simulated period. evaluate_plan() simulates one plan. plan_front() compares it with plans for parts of the
// cluster. plan_regret() measures the loss that a noisy profile causes.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "report/timeline/timeline.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// A plan from which the search started, with its predicted and simulated figures.
struct PlanCandidate {
  std::string name;         ///< for example "two stages 15-1 at 33"
  double predicted_ns = 0;  ///< period that a recurrence predicts
  double simulated_ns = 0;  ///< steady period; infinite if the plan hangs with the scenario's channels
  bool is_exact = true;     ///< true if simulated_ns is an exact period, false if it is a mean over rounds
  Bytes peak_bytes = 0;     ///< simulated peak of the fullest device
  bool fits = true;         ///< true if the peak is within the memory limit
};

struct SearchedPlan {
  PlannedScenario planned;
  std::vector<PlanCandidate> candidates;  ///< the tried plans in the order in which they were tried
  std::int64_t simulations = 0;
  std::int64_t pruned = 0;   ///< number of starts that were not simulated because a bound excluded them
  std::int64_t actions = 0;  ///< number of actions that the simulations of all plans ran, in total
  /// The number of starts (plans from which the search would improve) that were not tried, because the budget
  /// of actions was used up.
  std::int64_t left_out = 0;
  bool ran_out = false;    ///< true if the budget of actions ended before all starts and moves were tried
  bool tried_all = false;  ///< true if every plan with its devices in order was tried or excluded by a bound
};

/// The numbers of simulations and of simulated actions after which a search for a plan ends.
struct PlanBudget {
  std::int64_t simulations = 2000;
  /// The limit of simulated actions in all plans together. The default takes about half a minute. Plans for
  /// many devices need streams of millions of actions.
  std::int64_t actions = std::int64_t{1} << 27;
};

/// Returns the plan with the shortest simulated steady period within the memory limit. Among plans with equal
/// periods, it prefers fewer devices, and then less memory. `options` state the form and the memory limit;
/// their objective has no effect. The search ends when the budget is used up. After half of the budgeted
/// actions, it tries only one start of each family. Equal inputs give equal plans. Returns the errors of
/// planning_task(). Also returns an error if no tried plan fits.
tl::expected<SearchedPlan, std::string> search_plan(const Scenario& scenario, const PlanOptions& options,
                                                    const PlanBudget& budget = {});

/// The measure by which plans are ranked: the simulated period, or the period of a recurrence.
enum class PlanRanking : std::uint8_t { simulated, recurrence };

/// Returns only the plan of search_plan() or of plan_scenario(), depending on `ranking`. The search gets a
/// twentieth of the usual budget, because callers need many plans. Returns the errors of search_plan() or
/// plan_scenario().
tl::expected<PlannedScenario, std::string> plan_by(PlanRanking ranking, const Scenario& scenario,
                                                   const PlanOptions& options);

/// A plan that a recurrence or a search has made, with its simulated figures.
struct PlanEvaluation {
  PlannedScenario planned;
  double simulated_period_ns = 0;  ///< steady time between two minibatches
  std::vector<Bytes> stage_peaks;  ///< simulated peak of the fullest device of each stage
  bool out_of_memory = false;      ///< true if the simulated peak exceeds the memory of some device
  double bytes_per_sample = 0;     ///< bytes that all devices together send for a sample
  double data_parallel_bytes_per_sample = 0;  ///< bytes per sample for data parallelism on as many devices
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

/// Makes a plan for the scenario by a recurrence, simulates it, and returns its figures. Returns the errors
/// of plan_scenario() and of the simulation.
tl::expected<PlanEvaluation, std::string> evaluate_plan(const Scenario& scenario, const PlanOptions& options);

/// Simulates an existing plan. Returns the error of the simulation.
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

/// Returns the regret of plans that are made from noisy profiles, at each level of noise. The periods of the
/// plans are computed with the true profile, on all cores. Equal inputs give equal results on any number of
/// cores. Fails if evaluate_plan() fails, or if the plan of the true profile takes no time.
tl::expected<std::vector<RegretRow>, std::string> plan_regret(const Scenario& scenario,
                                                              const PlanOptions& options,
                                                              const ProfileNoise& noise,
                                                              PlanRanking ranking = PlanRanking::recurrence);

// The effects on a plan's period that PipeDream's recurrence ignores. simulated_period() simulates a
// stream of minibatches with some of these effects (idealised_stream.cpp). plan_factors() adds them one at
// a time, for `penstock plan --factors`.

/// The effects on a plan's period that PipeDream's recurrence ignores, in the order in which plan_factors()
/// turns them on.
enum class PlanFactor : std::uint8_t {
  // Both directions of a cut run at the same time, each pair of replicas has its own route, and the
  // scenario's channel model is used.
  transfers,
  ring,        // the bytes that a ring really sends when it reduces gradients
  latency,     // the latency of every message and of the steps of a ring
  contention,  // several messages share a link; this factor turns on the three factors above, too
  overlap,     // a replica's next forward waits for the reduction before it
  buckets,     // gradients are reduced in buckets; this factor turns on contention and overlap, too
  depth,       // the number of minibatches in flight is limited to that of 1F1B-RR
  ends,        // the run has a fixed number of minibatches, so the pipeline fills and drains
};
template <>
inline constexpr auto kEnumWords<PlanFactor> =
    std::to_array<EnumWord<PlanFactor>>({{PlanFactor::transfers, "transfers"},
                                         {PlanFactor::ring, "ring"},
                                         {PlanFactor::latency, "latency"},
                                         {PlanFactor::contention, "contention"},
                                         {PlanFactor::overlap, "overlap"},
                                         {PlanFactor::buckets, "buckets"},
                                         {PlanFactor::depth, "depth"},
                                         {PlanFactor::ends, "ends"}});

/// A set of effects on a plan's period (PlanFactor). Each effect is one bit.
class FactorSet {
 public:
  bool has(PlanFactor factor) const { return (bits_ >> static_cast<unsigned>(factor) & 1U) != 0; }
  FactorSet with(PlanFactor factor) const;

  friend auto operator<=>(const FactorSet&, const FactorSet&) = default;

 private:
  std::uint32_t bits_ = 0;
};

/// The time from one minibatch to the next in an endless stream.
struct StreamPeriod {
  double period_ns = 0;
  /// True if the stream repeats exactly. Otherwise the period is the mean over a long part of the stream.
  bool is_exact = false;
};

/// Returns the simulated period of the plan with the factors in `on`. Without any factor, the simulation has
/// only the resources of the recurrence. These are a device for each stage's computation, one link for each
/// cut, and one link for each stage's reduction. Activations and gradients use the link of a cut one after
/// the other. The reduction runs during the computation, or after it if the objective is their sum. Enough
/// minibatches are in flight that no stage ever waits for one. The period is then that of the recurrence.
/// With the factor `ends`, the period is the makespan of the planned scenario's minibatches, divided by their
/// number. Returns an error if the program hangs with the scenario's channels.
tl::expected<StreamPeriod, std::string> simulated_period(const PlannedScenario& planned, FactorSet on);

/// A description of a factor for users.
struct FactorMeaning {
  std::string_view simulated;  ///< the behaviour of the simulation if the factor is on
  std::string_view assumed;    ///< the assumption of the recurrence
};
FactorMeaning meaning(PlanFactor factor, PlanObjective objective);

/// The simulated periods of the plan that show one effect (PlanFactor).
struct FactorPeriods {
  PlanFactor factor = PlanFactor::transfers;
  double alone_ns = 0;              ///< period if only this factor is on, with the factors that it turns on
  double with_those_before_ns = 0;  ///< period if this factor and all earlier ones of the enum are on
};

/// The memory of the fullest device by the recurrence and by the simulation.
struct PlannedMemory {
  Bytes planned = 0;  ///< bytes by the formula of the recurrence
  /// The simulated bytes. Unlike the planned bytes, they include message buffers and older weight versions.
  Bytes simulated = 0;
  bool fits_simulated = true;  ///< true if the simulated bytes fit on all devices
};

struct PlanFactors {
  PlanObjective objective = PlanObjective::maximum;  ///< objective of the recurrence
  double recurrence_ns = 0;
  /// The simulated period with all factors off. It equals recurrence_ns, apart from rounding to nanoseconds.
  double ideal_ns = 0;
  /// One row for each factor, in the order of the enum. `buckets` has a row only if the plan has buckets.
  /// In the row before `ends`, with_those_before_ns is the plan's steady period.
  std::vector<FactorPeriods> rows;
  PlannedMemory memory;
  std::vector<std::string> notes;
};

/// Returns the periods of a plan for all factors. Simulates the plan, on all cores, with each set of
/// factors that the rows need. Returns an error if the plan takes no time or a simulation fails.
tl::expected<PlanFactors, std::string> plan_factors(const PlanEvaluation& evaluation);

/// The change of the period that one effect (PlanFactor) causes if all effects before it are on.
struct FactorDifference {
  PlanFactor factor = PlanFactor::transfers;
  double difference_ns = 0;
};

/// Returns the factors that change the steady period by at least a thousandth of the recurrence's period.
/// Together with smaller changes that are left out, these changes add up to the difference between the
/// simulated period and the recurrence's period.
std::vector<FactorDifference> differing_factors(const PlanFactors& factors);

}  // namespace penstock
