// Time: rank r cannot begin before the first microbatch has come through all stages before its earliest, s,
// and when it has done its work, the last gradient has still to go back through them:
//
//   step >= sum over i < s of (F_i + transfer_i)  +  M * (work of r)  +  sum over i < s of (B_i + transfer_i)
//           +  STEP of the first stage's rank
//
// Its last action is the earliest stage's backward where backwards are whole. Where they are split, weight
// gradients may run beside that way back, and their time counts only without it.
//
//   stage 0   F0                                    B7 STEP
//   stage 1      F0                              B7
//   stage 2         |--- M (F + B) of the rank --|             s = 2, M = 8
//
// Memory: what is held at some of the fullest moments, messages left out.

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

/// What the way costs from the first stage to each, and back; messages between stages of one rank are none.
struct Reaches {
  std::vector<Ns> there;
  std::vector<Ns> back;
};

Reaches reaches_of(const PricedConfiguration& priced, const ScheduleOutline& outline) {
  const std::vector<StageCost>& stages = priced.costs.stages;
  Reaches ways{.there = {0}, .back = {0}};
  for (std::size_t i = 0; i + 1 < stages.size(); ++i) {
    const bool crosses = outline.rank_of_stage[i] != outline.rank_of_stage[i + 1];
    const Ns transfer =
        crosses ? serialization_ns(priced.costs.edges[i].activation, priced.links.bytes_per_second) +
                      priced.links.latency_ns
                : 0;
    const Ns backward = outline.splits_backward ? stages[i].backward_input_ns : stages[i].backward_ns;
    ways.there.push_back(ways.there.back() + stages[i].forward_ns + transfer);
    ways.back.push_back(ways.back.back() + backward + transfer);
  }
  return ways;
}

std::size_t first_rank(const ScheduleOutline& outline) { return index(outline.rank_of_stage.front()); }

/// STEPs of all its stages.
Ns step_of(const PricedConfiguration& priced, const RankOutline& rank) {
  Ns step = 0;
  for (const std::int32_t stage : rank.stages) step += priced.costs.stages[index(stage)].step_ns;
  return step;
}

/// The head's formula for one rank: the larger of its way back and, with weight gradients counted, its own
/// end.
Ns step_bound(const PricedConfiguration& priced, const ScheduleOutline& outline, const RankOutline& rank,
              const Reaches& ways, std::int64_t microbatches) {
  Ns needed = 0;  // before the way back may begin
  Ns work = 0;
  for (const std::int32_t stage : rank.stages) {
    const StageCost& cost = priced.costs.stages[index(stage)];
    needed += cost.forward_ns + (outline.splits_backward ? cost.backward_input_ns : cost.backward_ns);
    work += cost.forward_ns + cost.backward_ns;
  }
  const std::size_t earliest = index(rank.stages.front());
  const Ns back =
      microbatches * needed + ways.back[earliest] + step_of(priced, outline.ranks[first_rank(outline)]);
  return ways.there[earliest] + std::max(back, microbatches * work + step_of(priced, rank));
}

}  // namespace

LowerBounds lower_bounds(const PricedConfiguration& priced, const ScheduleOutline& outline,
                         std::int32_t microbatches) {
  const Reaches ways = reaches_of(priced, outline);
  LowerBounds bounds;
  for (const RankOutline& rank : outline.ranks) {
    bounds.step_ns = std::max(bounds.step_ns, step_bound(priced, outline, rank, ways, microbatches));
    bounds.peak_bytes = std::max(bounds.peak_bytes, least_peak_bytes(priced.costs, rank));
  }
  return bounds;
}

}  // namespace penstock
