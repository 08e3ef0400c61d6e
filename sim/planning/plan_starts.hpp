#pragma once
// The plans from which the search begins. Used only in sim/planning.

#include <optional>
#include <string>
#include <vector>

#include "scenarios/prepare/planned_scenario.hpp"
#include "sim/planning/plan_choice.hpp"
#include "sim/planning/plan_trials.hpp"

namespace penstock {

/// The kind of a start. The best start of each family is improved, even if it is slower than all others.
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
  std::optional<double> promised_ns{};  ///< period that a recurrence predicts; absent for other starts
};

/// Returns all starts, each choice once, in this order:
///
///     data parallelism on all devices; the straight pipeline; every two-stage split on all devices;
///     even splits into 2 to 16 stages with equal replicas;
///     the plans of each recurrence for each number of devices, with the cluster's levels and with one level
///
/// Adds to `trials` the orders of layers that only a recurrence has.
std::vector<PlanStart> plan_starts(const PlanningTask& task, PlanTrials& trials);

/// Returns the start with its gradients in buckets, one forward deeper, and on other devices: one change
/// each.
std::vector<PlanStart> variants_of(const PlanStart& start, const PlanningTask& task);

}  // namespace penstock
