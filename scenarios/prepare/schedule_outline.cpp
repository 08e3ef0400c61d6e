// Finds the fullest moments of each rank. Without gradients, the rank is fullest when most activations are
// alive. With gradients, it is fullest after each of its stages has had a backward pass. The outline contains
// the moment with most activations, with and without the condition that all gradients are held. With all
// gradients it also contains the fullest moments in which the first or last stage runs, because an end such
// as the head needs most memory:
//
//   1F1B, rank 0 of 3:   F0  F1  F2  B0   F3  B1 ...       live 1 2 3 3 | 3 3 ..   gradients from B0 on
//
// If layers are recomputed, microbatches between I and W need most memory. The moment with most of them is
// therefore included.

#include "scenarios/prepare/schedule_outline.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

/// Returns the number of live microbatches on all stages. Stages count equally, because an outline has no
/// bytes.
std::int64_t live_count(const HeldMoment& moment) {
  return std::accumulate(moment.live.begin(), moment.live.end(), std::int64_t{0});
}

bool has_all_gradients(const HeldMoment& moment) {
  return std::ranges::find(moment.gradients, false) == moment.gradients.end();
}

/// Returns how many of the live microbatches wait for W.
std::int64_t waiting_count(const HeldMoment& moment) {
  return std::accumulate(moment.waiting.begin(), moment.waiting.end(), std::int64_t{0});
}

/// Stores the moment with the largest count. A condition may exclude moments.
class Fullest {
 public:
  using Count = std::int64_t (*)(const HeldMoment&);

  explicit Fullest(std::function<bool(const HeldMoment&)> admits, Count count = live_count)
      : admits_(std::move(admits)), count_(count) {}

  void see(const HeldMoment& moment) {
    if (!admits_(moment)) return;
    const std::int64_t count = count_(moment);
    if (count <= most_) return;
    most_ = count;
    moment_ = moment;
  }
  bool is_known() const { return most_ >= 0; }
  const HeldMoment& moment() const { return moment_; }

 private:
  std::function<bool(const HeldMoment&)> admits_;
  Count count_;
  std::int64_t most_ = -1;
  HeldMoment moment_;
};

/// Returns the fullest moments of a rank with these stages, found by a walk through its list. The actions of
/// an overlapped pair count one after the other.
std::vector<HeldMoment> fullest_moments(const std::vector<std::int32_t>& stages,
                                        const std::vector<Action>& list) {
  const auto last = static_cast<std::int32_t>(stages.size()) - 1;
  std::vector<Fullest> kept;
  kept.emplace_back([](const HeldMoment&) { return true; });
  kept.emplace_back(has_all_gradients);
  kept.emplace_back([](const HeldMoment& m) { return has_all_gradients(m) && m.running == 0; });
  kept.emplace_back([=](const HeldMoment& m) { return has_all_gradients(m) && m.running == last; });
  kept.emplace_back(has_all_gradients, waiting_count);
  HeldMoment now{.live = std::vector<std::int32_t>(stages.size(), 0),
                 .waiting = std::vector<std::int32_t>(stages.size(), 0),
                 .gradients = std::vector<bool>(stages.size(), false)};
  for (const Action& action : list) {
    if (!is_compute(action.kind) || action.kind == ActionKind::step) continue;
    now.running = static_cast<std::int32_t>(std::ranges::find(stages, action.stage) - stages.begin());
    now.kind = action.kind;
    const std::size_t stage = index(now.running);
    if (action.kind == ActionKind::forward) ++now.live[stage];
    if (action.kind == ActionKind::backward_input) ++now.waiting[stage];
    // A microbatch ends with B, or with W if backward passes are split. Until then the rank holds memory for
    // it.
    const bool ends_microbatch = makes_weight_gradient(action.kind);
    if (ends_microbatch) now.gradients[stage] = true;
    for (Fullest& fullest : kept) fullest.see(now);
    if (ends_microbatch) --now.live[stage];
    if (action.kind == ActionKind::backward_weight) --now.waiting[stage];
  }
  std::vector<HeldMoment> moments;
  for (const Fullest& fullest : kept) {
    if (fullest.is_known()) moments.push_back(fullest.moment());
  }
  return moments;
}

}  // namespace

// With 2 K microbatches, a rank's warm-up is over and its first backward passes have run. More microbatches
// do not increase the memory further.
std::int32_t outlined_microbatches(std::int32_t stages, std::int32_t microbatches) {
  return std::min(microbatches, 2 * stages);
}

ScheduleOutline outline_of(const Program& program) {
  ScheduleOutline outline{.rank_of_stage = program.placement.ranks_of_stages(),
                          .units = program.unit_count()};
  outline.ranks.resize(program.ranks.size());
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage)
    outline.ranks[index(outline.rank_of_stage[index(stage)])].stages.push_back(stage);
  for (const std::vector<Action>& list : program.ranks) {
    outline.splits_backward |=
        std::ranges::find(list, ActionKind::backward_weight, &Action::kind) != list.end();
  }
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    outline.ranks[rank].moments = fullest_moments(outline.ranks[rank].stages, program.ranks[rank]);
  }
  return outline;
}

ScheduleOutline outline_of_whole(ScheduleOutline outline, std::int64_t microbatches) {
  if (microbatches <= outline.units) return outline;
  for (RankOutline& rank : outline.ranks) {
    for (HeldMoment& moment : rank.moments) {
      for (std::int32_t& live : moment.live) {
        if (live == outline.units) live = static_cast<std::int32_t>(microbatches);
      }
    }
  }
  return outline;
}

// Weights and optimizer state are always present. The other bytes are the maximum over the outlined moments
// for these costs.
Bytes least_peak_bytes(const CostTable& costs, const RankOutline& rank) {
  const auto cost = [&](std::size_t stage) -> const StageCost& {
    return costs.stages[index(rank.stages[stage])];
  };
  Bytes constant = 0;
  for (std::size_t stage = 0; stage < rank.stages.size(); ++stage)
    constant += cost(stage).weights + cost(stage).optimizer_state;
  Bytes most = 0;
  for (const HeldMoment& moment : rank.moments) {
    Bytes held = transient_bytes(cost(index(moment.running)), moment.kind);
    for (std::size_t stage = 0; stage < rank.stages.size(); ++stage) {
      held += moment.live[stage] * cost(stage).kept;
      held += moment.waiting[stage] * cost(stage).recomputed;
      if (moment.gradients[stage]) held += cost(stage).gradients;
    }
    most = std::max(most, held);
  }
  return constant + most;
}

}  // namespace penstock
