// Bounds a configuration's step from below. Let s be the earliest stage of rank r. The rank cannot begin
// before the first microbatch has passed all stages before s. After the work of the rank, the last gradient
// still has to return through these stages:
//
//     step >= sum over i < s of (F_i + transfer_i)  +  M * (work of r)  +  sum over i < s of (B_i
//             + transfer_i)  +  STEP of the first stage's rank
//
// If backward passes are whole, the last action of r is the backward pass of stage s. If they are split,
// weight gradients may run while the gradient returns. So their time counts only in a bound without that
// return.
//
//     stage 0   F0                                    B7 STEP
//     stage 1      F0                              B7
//     stage 2         |--- M (F + B) of the rank --|             s = 2, M = 8
//
// The bound of the memory is the bytes that a rank holds at some of its fullest moments, without messages.
// Tests: tests/sim/tuning_test.cpp.

#include "sim/tuning/lower_bounds.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "scenarios/prepare/schedule_outline.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "sim/tuning/configuration_prices.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

/// The time of a message from the first stage to each stage, and back. Messages between stages of one rank
/// take no time.
struct TravelTimes {
  std::vector<Ns> there;
  std::vector<Ns> back;
};

TravelTimes travel_times(const PricedConfiguration& priced, const ScheduleOutline& outline) {
  const std::vector<StageCost>& stages = priced.costs.stages;
  TravelTimes travel{.there = {0}, .back = {0}};
  for (std::size_t i = 0; i + 1 < stages.size(); ++i) {
    const bool crosses = outline.rank_of_stage[i] != outline.rank_of_stage[i + 1];
    const Ns transfer =
        crosses ? serialization_ns(priced.costs.edges[i].activation, priced.links.bytes_per_second) +
                      priced.links.latency_ns
                : 0;
    const Ns backward = outline.splits_backward ? stages[i].backward_input_ns : stages[i].backward_ns;
    travel.there.push_back(travel.there.back() + stages[i].forward_ns + transfer);
    travel.back.push_back(travel.back.back() + backward + transfer);
  }
  return travel;
}

std::size_t first_rank(const ScheduleOutline& outline) { return index(outline.rank_of_stage.front()); }

/// Returns the sum of the STEPs of all stages of the rank.
Ns step_of(const PricedConfiguration& priced, const RankOutline& rank) {
  Ns step = 0;
  for (const std::int32_t stage : rank.stages) step += priced.costs.stages[index(stage)].step_ns;
  return step;
}

/// Returns the bound of one rank, which is the larger of two. The first ends with the STEP of the first
/// stage, after the last gradient has returned to it. The second counts weight gradients and not this return.
Ns step_bound(const PricedConfiguration& priced, const ScheduleOutline& outline, const RankOutline& rank,
              const TravelTimes& travel, std::int64_t microbatches) {
  Ns needed = 0;  // earliest time at which the last gradient can start back to the first stage
  Ns work = 0;
  for (const std::int32_t stage : rank.stages) {
    const StageCost& cost = priced.costs.stages[index(stage)];
    needed += cost.forward_ns + (outline.splits_backward ? cost.backward_input_ns : cost.backward_ns);
    work += cost.forward_ns + cost.backward_ns;
  }
  const std::size_t earliest = index(rank.stages.front());
  const Ns back =
      microbatches * needed + travel.back[earliest] + step_of(priced, outline.ranks[first_rank(outline)]);
  return travel.there[earliest] + std::max(back, microbatches * work + step_of(priced, rank));
}

}  // namespace

LowerBounds lower_bounds(const PricedConfiguration& priced, const ScheduleOutline& outline,
                         std::int32_t microbatches) {
  const TravelTimes travel = travel_times(priced, outline);
  LowerBounds bounds;
  for (const RankOutline& rank : outline.ranks) {
    bounds.step_ns = std::max(bounds.step_ns, step_bound(priced, outline, rank, travel, microbatches));
    bounds.peak_bytes = std::max(bounds.peak_bytes, least_peak_bytes(priced.costs, rank));
  }
  return bounds;
}

}  // namespace penstock
