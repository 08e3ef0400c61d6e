#pragma once
// The effects on a plan's period that PipeDream's recurrence leaves out. simulated_period() simulates a
// plan's stream of minibatches with some of them (idealised_stream.cpp). plan_factors() switches them on
// one at a time.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "report/timeline/timeline.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "schedules/ir/action.hpp"
#include "sim/choose/plan_search.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The effects that the recurrence ignores, in the order in which plan_factors() switches them on.
enum class PlanFactor : std::uint8_t {
  // Both directions of a cut run at once, each pair of replicas has its own route, and the scenario's
  // channels apply.
  transfers,
  ring,        // the bytes that a ring really sends to reduce gradients
  latency,     // the latency of every message and of the steps of a ring
  contention,  // links are shared by several messages; switches the three above on as well
  overlap,     // a replica's next forward waits for the reduction before it
  buckets,     // gradients are reduced in the scenario's buckets; switches contention and overlap on as well
  depth,       // only as many minibatches are in flight as 1F1B-RR admits
  ends,        // a run of a fixed number of minibatches fills its pipeline and drains it
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

/// The factors that are on, one bit each.
class FactorSet {
 public:
  bool has(PlanFactor factor) const { return (bits_ >> static_cast<unsigned>(factor) & 1U) != 0; }
  FactorSet with(PlanFactor factor) const;

  friend auto operator<=>(const FactorSet&, const FactorSet&) = default;

 private:
  std::uint32_t bits_ = 0;
};

/// The time between two minibatches of a stream.
struct StreamPeriod {
  double period_ns = 0;
  /// True if the stream repeats exactly. Otherwise the period is the mean over a long part of the stream.
  bool is_exact = false;
};

/// Simulates the plan with the factors that are on.
///
/// Without any factor, only the recurrence's resources remain: a device for each stage's compute, one link
/// for each cut, and one link for each stage's reduction. Activations and gradients use the link of a cut one
/// after the other. The reduction runs at the same time as the compute, or after it if the objective is their
/// sum. Enough minibatches are in flight that no stage waits for more. The period is then that of the
/// recurrence.
///
/// With `ends`, the period is the makespan of the planned scenario's minibatches, divided by their number.
/// Error: the program hangs under the scenario's channels.
tl::expected<StreamPeriod, std::string> simulated_period(const PlannedScenario& planned, FactorSet on);

// Shows, one factor at a time, the effects on a plan's period that PipeDream's recurrence ignores. `penstock
// plan --factors` prints them.

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
