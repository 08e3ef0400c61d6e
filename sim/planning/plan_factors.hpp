#pragma once
// Shows, one factor at a time, the effects on a plan's period that PipeDream's recurrence ignores. `penstock
// plan --factors` prints them.

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/partition/plan_options.hpp"
#include "schedules/ir/action.hpp"
#include "sim/planning/idealised_stream.hpp"
#include "sim/planning/plan_evaluation.hpp"

namespace penstock {

/// A description of a factor.
struct FactorMeaning {
  std::string_view simulated;  ///< behaviour of the simulation with the factor
  std::string_view assumed;    ///< assumption of the recurrence instead
};
FactorMeaning meaning(PlanFactor factor, PlanObjective objective);

/// The simulated periods of the plan for one factor.
struct FactorPeriods {
  PlanFactor factor = PlanFactor::transfers;
  double alone_ns = 0;              ///< period with only this factor on, and the factors that it switches on
  double with_those_before_ns = 0;  ///< period with this factor and all earlier ones of the enum on
};

/// The planned memory and the simulated memory.
struct PlannedMemory {
  Bytes planned = 0;  ///< bytes of the fullest device as the recurrence counts them
  /// Simulated bytes of the fullest device, with message buffers and older weight versions.
  Bytes simulated = 0;
  bool fits_simulated = true;  ///< the simulated bytes fit on all devices
};

struct PlanFactors {
  PlanObjective objective = PlanObjective::maximum;  ///< objective of the recurrence
  double recurrence_ns = 0;
  /// Simulated period with every factor off; equals recurrence_ns up to rounding to nanoseconds.
  double ideal_ns = 0;
  /// The rows in the order of the enum. `buckets` has a row only if the plan has buckets. The row before
  /// `ends` has the plan's steady period in its second column.
  std::vector<FactorPeriods> rows;
  PlannedMemory memory;
  std::vector<std::string> notes;
};

/// Simulates the plan once for each row and column, on all cores. Errors: a plan that takes no time, and
/// errors of the simulation.
tl::expected<PlanFactors, std::string> plan_factors(const PlanEvaluation& evaluation);

/// The change of the period that one factor causes on top of the factors before it.
struct FactorDifference {
  PlanFactor factor = PlanFactor::transfers;
  double difference_ns = 0;
};

/// Returns the factors of the steady period that change it by at least a thousandth. Apart from smaller
/// changes they add up to the difference between the recurrence's period and the simulated one.
std::vector<FactorDifference> differing_factors(const PlanFactors& factors);

}  // namespace penstock
