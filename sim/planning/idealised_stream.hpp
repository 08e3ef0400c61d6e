#pragma once
// A plan's stream of minibatches with some of what PipeDream's recurrence leaves out left out here, too. Used
// by plan_factors.cpp.

#include <array>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// What the recurrence leaves out. In the order in which plan_factors() switches them on.
enum class PlanFactor : std::uint8_t {
  transfers,   // both directions of a cut at once, each pair of replicas over its own route; the scenario's
               // channels
  ring,        // the bytes that a ring really sends to reduce gradients
  latency,     // of every message, and of the steps of a ring
  contention,  // links that several messages share; takes the three above along
  overlap,     // a replica's next forward waits for the reduction before it
  buckets,  // gradients are reduced in buckets, as the scenario has them; takes contention and overlap along
  depth,    // as many minibatches in flight as 1F1B-RR admits
  ends,     // a run of so many minibatches fills its pipeline and drains it
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

/// Factors that are on, a bit each.
class FactorSet {
 public:
  bool has(PlanFactor factor) const { return (bits_ >> static_cast<unsigned>(factor) & 1U) != 0; }
  FactorSet with(PlanFactor factor) const;

  friend auto operator<=>(const FactorSet&, const FactorSet&) = default;

 private:
  std::uint32_t bits_ = 0;
};

/// The time between two minibatches.
struct StreamPeriod {
  double period_ns = 0;
  bool is_exact = false;  ///< otherwise it is the mean over a long stretch
};

/// Simulates the plan with the factors that are on. With none, what the recurrence prices is all there is: a
/// device for its stage's compute, one link for each cut (activations and gradients one after the other), one
/// for each stage's reduction, which runs beside the compute (in its way where the objective is their sum),
/// and so many minibatches in flight that nobody waits for more; the period is the recurrence's. With `ends`
/// it is the makespan of the planned scenario's number of minibatches, divided by that. Error: the program
/// hangs under the scenario's channels.
tl::expected<StreamPeriod, std::string> simulated_period(const PlannedScenario& planned, FactorSet on);

}  // namespace penstock
