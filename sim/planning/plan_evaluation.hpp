#pragma once
// A PipeDream plan beside its simulation, and the plans for fewer devices that it competes with. Printed by
// `penstock plan`.

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

/// What a plan promises and what its simulation says.
struct PlanEvaluation {
  PlannedScenario planned;
  double simulated_period_ns = 0;             ///< between two minibatches of a stream that fills the pipeline
  std::vector<Bytes> stage_peaks;             ///< simulated, of the fullest device of each stage
  bool out_of_memory = false;                 ///< simulated, on some device
  double bytes_per_sample = 0;                ///< sent by all devices (bytes_per_minibatch())
  double data_parallel_bytes_per_sample = 0;  ///< of one stage replicated on as many devices
  std::vector<std::string> notes;

  std::int32_t devices() const;           ///< that the plan uses; each is devices_per_rank() of them
  std::int32_t devices_per_rank() const;  ///< that share each layer (tensor parallelism)
  double samples_per_second() const;      ///< simulated
  Bytes peak_bytes() const;               ///< of the fullest device
  double device_hours_per_million_samples() const;  ///< of all devices of all ranks
  /// Absent where the cluster has no price.
  std::optional<double> cost_per_million_samples() const;
  std::string configuration() const;  ///< replicas of the stages: "15-1"
};

/// Plans and simulates. Errors: those of plan_scenario() and of the simulation.
tl::expected<PlanEvaluation, std::string> evaluate_plan(const Scenario& scenario, const PlanOptions& options);

/// Simulates a plan that was made already. Errors: those of the simulation.
tl::expected<PlanEvaluation, std::string> evaluate_plan(PlannedScenario planned);

/// The front of time, memory and cost: plans for parts of the cluster (1 to all devices of a server, then
/// whole servers; of a uniform cluster powers of two), replicated ones and straight ones, and `known`, of
/// which no other is at least as fast, as small and as cheap. By devices, then by period. Of a cluster given
/// link by link only all devices count.
std::vector<PlanEvaluation> plan_front(const Scenario& scenario, const PlanOptions& options,
                                       PlanRanking ranking = PlanRanking::recurrence,
                                       const std::optional<PlanEvaluation>& known = std::nullopt);

}  // namespace penstock
