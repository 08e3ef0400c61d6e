#pragma once
// Where the search for a plan begins. Private to sim/planning.

#include <optional>
#include <string>
#include <vector>

#include "scenarios/prepare/planned_scenario.hpp"
#include "sim/planning/plan_choice.hpp"
#include "sim/planning/plan_trials.hpp"

namespace penstock {

/// What a start came from; the best of each is improved, however the others do.
enum class PlanFamily : std::uint8_t {
  data_parallel,
  straight,
  two_stages,
  even,
  sum,
  maximum,
  maximum_printed,
};

struct PlanStart {
  PlanFamily family = PlanFamily::data_parallel;
  std::string name;
  PlanChoice choice;
  std::optional<double> promised_ns{};  ///< by the recurrence that made it
};

/// All starts, each choice once: data parallelism on all devices, the straight pipeline, every two-stage
/// split on all devices, even splits into 2 to 16 stages with equal replicas, and the plan of each recurrence
/// on each number of devices, over the levels and over one. Orders of layers that only a recurrence has are
/// added.
std::vector<PlanStart> plan_starts(const PlanningTask& task, PlanTrials& trials);

/// The start with its gradients in buckets, one forward deeper, and on other devices.
std::vector<PlanStart> variants_of(const PlanStart& start, const PlanningTask& task);

}  // namespace penstock
