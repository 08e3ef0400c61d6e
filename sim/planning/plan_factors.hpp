#pragma once
// What PipeDream's recurrence leaves out of a plan's period, one factor at a time. Printed by
// `penstock plan --factors`.

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/partition/plan_options.hpp"
#include "schedules/ir/action.hpp"
#include "sim/planning/idealised_stream.hpp"
#include "sim/planning/plan_evaluation.hpp"

namespace penstock {

/// A factor in words.
struct FactorMeaning {
  std::string_view simulated;  ///< what is true with it
  std::string_view assumed;    ///< what the recurrence has in its place
};
FactorMeaning meaning(PlanFactor factor, PlanObjective objective);

/// Simulated periods of the plan.
struct FactorPeriods {
  PlanFactor factor = PlanFactor::transfers;
  double alone_ns = 0;              ///< with this factor on and no other one but those that it takes along
  double with_those_before_ns = 0;  ///< with this factor and all earlier ones of the enum
};

/// Whether the bytes that were planned with are those that the simulation holds over time.
struct PlannedMemory {
  Bytes planned = 0;           ///< of the fullest device, as the recurrence counts it
  Bytes simulated = 0;         ///< the same, simulated: with buffers of messages, and versions kept for long
  bool fits_simulated = true;  ///< on all devices
};

struct PlanFactors {
  PlanObjective objective = PlanObjective::maximum;  ///< of the recurrence
  double recurrence_ns = 0;
  double ideal_ns = 0;  ///< simulated with every factor off: equal, but for roundings to whole nanoseconds
  std::vector<FactorPeriods> rows;  ///< in the order of the enum, buckets where there are; the one before
                                    ///< `ends` has the plan's own steady period with those before it
  PlannedMemory memory;
  std::vector<std::string> notes;
};

/// Simulates the plan once for every row and column, on all cores. Errors: a plan that takes no time; those
/// of the simulation.
tl::expected<PlanFactors, std::string> plan_factors(const PlanEvaluation& evaluation);

/// What one factor, with those before it, adds to the period or takes off.
struct FactorDifference {
  PlanFactor factor = PlanFactor::transfers;
  double difference_ns = 0;
};

/// Of the factors of the steady period those that move it by a thousandth or more: they add up to what lies
/// between the recurrence's period and the simulated one, but for what is smaller.
std::vector<FactorDifference> differing_factors(const PlanFactors& factors);

}  // namespace penstock
