#pragma once
// Simulates a plan's stream of minibatches without some of the effects that PipeDream's recurrence ignores.
// plan_factors.cpp uses it.

#include <array>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/planned_scenario.hpp"
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

}  // namespace penstock
