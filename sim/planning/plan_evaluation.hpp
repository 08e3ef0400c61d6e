#pragma once
// Evaluates a PipeDream plan by simulation, together with the competing plans for fewer devices. `penstock
// plan` prints the result.

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/partition/plan_options.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "sim/planning/plan_search.hpp"

namespace penstock {

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

}  // namespace penstock
