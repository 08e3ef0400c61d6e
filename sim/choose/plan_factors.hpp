#pragma once
// The effects on a plan's period that PipeDream's recurrence ignores. simulated_period() simulates a
// stream of minibatches with some of these effects (idealised_stream.cpp). plan_factors() adds them one at
// a time, for `penstock plan --factors`.

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

/// The effects on a plan's period that PipeDream's recurrence ignores, in the order in which plan_factors()
/// turns them on.
enum class PlanFactor : std::uint8_t {
  // Both directions of a cut run at once, each pair of replicas has its own route, and the scenario's
  // channels apply.
  transfers,
  ring,        // the bytes that a ring really sends to reduce gradients
  latency,     // the latency of every message and of the steps of a ring
  contention,  // several messages share a link; this turns the three factors above on as well
  overlap,     // a replica's next forward waits for the reduction before it
  buckets,     // gradients are reduced in buckets; this turns contention and overlap on as well
  depth,       // only as many minibatches are in flight as 1F1B-RR allows
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

/// A set of factors. Each factor is one bit.
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

/// Returns the simulated period of the plan with the factors in `on`.
/// Without any factor, the simulation has only the resources of the recurrence: a device for each stage's
/// computation, one link for each cut, and one link for each stage's reduction. Activations and gradients
/// use the link of a cut one after the other. The reduction runs during the computation, or after it if the
/// objective is their sum. Enough minibatches are in flight that no stage ever waits for one. The period is
/// then that of the recurrence.
/// With the factor `ends`, the period is the makespan of the planned scenario's minibatches, divided by
/// their number. Returns an error if the program hangs with the scenario's channels.
tl::expected<StreamPeriod, std::string> simulated_period(const PlannedScenario& planned, FactorSet on);

/// A description of a factor for users.
struct FactorMeaning {
  std::string_view simulated;  ///< behaviour of the simulation if the factor is on
  std::string_view assumed;    ///< assumption of the recurrence
};
FactorMeaning meaning(PlanFactor factor, PlanObjective objective);

/// The simulated periods of the plan for one factor.
struct FactorPeriods {
  PlanFactor factor = PlanFactor::transfers;
  double alone_ns = 0;              ///< period if only this factor and those that it turns on are on
  double with_those_before_ns = 0;  ///< period if this factor and all earlier ones of the enum are on
};

/// The memory of the fullest device by the recurrence and by the simulation.
struct PlannedMemory {
  Bytes planned = 0;  ///< bytes as the recurrence counts them
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

/// The change of the period that one factor causes if all factors before it are on.
struct FactorDifference {
  PlanFactor factor = PlanFactor::transfers;
  double difference_ns = 0;
};

/// Returns the factors that change the steady period by at least a thousandth of the recurrence's period.
/// Together with smaller changes that are left out, these changes add up to the difference between the
/// simulated period and the recurrence's period.
std::vector<FactorDifference> differing_factors(const PlanFactors& factors);

}  // namespace penstock
