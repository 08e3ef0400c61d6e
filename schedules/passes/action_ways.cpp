// Walks look up the routes of every action. The actions of a stage have only a few different sets of routes,
// so these are prepared once for each stage. The routes of a stage are stored in an order in which each set
// is a range:
//
//   activations received | activations sent | gradients received | gradients sent
//   F -------------------------------------   B, I ------------------------------
//                                             late R -----------

#include "schedules/passes/action_ways.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

ActionWays::ActionWays(const Program& program) : edges_(program) {
  for (std::size_t kind = 0; kind < like_.size(); ++kind)
    like_[kind] = like_of(static_cast<ActionKind>(kind), program.recompute);
  needs_.reserve(program.placement.stages.size() * kLikes);
  ways_.reserve(2 *
                count());  // both stages of an edge store each route, and pointers to entries must stay valid
  const Placement& placement = program.placement;
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    // Three pointers into one list mark the routes. Routes between the first two pointers receive, and routes
    // between the last two send.
    const ActionWay* const activations_in =
        add_ways(placement, edges_.entering(stage), stage, Flow::activation);
    const ActionWay* const activations_out =
        add_ways(placement, edges_.leaving(stage), stage, Flow::activation);
    const ActionWay* const gradients_in = add_ways(placement, edges_.leaving(stage), stage, Flow::gradient);
    const ActionWay* const gradients_out = add_ways(placement, edges_.entering(stage), stage, Flow::gradient);
    const ActionWay* const end = ways_.data() + ways_.size();
    needs_.push_back({activations_in, activations_out, gradients_in});
    needs_.push_back({gradients_in, gradients_out, end});
    needs_.push_back({gradients_in, gradients_out, gradients_out});
    needs_.push_back({end, end, end});
  }
}

/// Returns the group of a kind, which depends on the data that it receives. W, an early R and kinds that are
/// not compute actions receive nothing.
ActionWays::Like ActionWays::like_of(ActionKind kind, RecomputeTiming recompute) {
  const std::optional<Flow> input = input_of(kind, recompute);
  if (!input) return Like::none;
  if (*input == Flow::activation) return Like::forward;
  return output_of(kind) ? Like::backward : Like::late_recompute;
}

const ActionWay* ActionWays::add_ways(const Placement& placement, std::span<const std::uint32_t> numbers,
                                      std::int32_t stage, Flow flow) {
  const ActionWay* const first = ways_.data() + ways_.size();
  for (const std::uint32_t edge : numbers) {
    const StageEdge& ends = edges_.edges()[edge];
    const std::int32_t other = ends.from == stage ? ends.to : ends.from;
    const std::vector<std::int32_t>& ranks = placement.stages[index(other)].ranks;
    ways_.push_back({.number = 2 * edge + static_cast<std::uint32_t>(flow),
                     .stage = other,
                     .rank = ranks.size() == 1 ? ranks.front() : ActionWay::kSeveral,
                     .flow = flow});
  }
  return first;
}

}  // namespace penstock
