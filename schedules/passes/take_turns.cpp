// Places the actions of all ranks in rounds. In each round the ranks get a turn in ascending order. In its
// turn, a rank places one action or overlapped group. An action is ready when its rank has computed or
// received all its inputs. A collective is placed on all its members when each of them has reached it.
//
// The rounds can stall if a program has gradient buckets and replica groups of different sizes. A member must
// then compute something for another member before that member can reach the collective. In this case, one
// rank after another joins its collective early. It continues up to the action that waits for the collective.
//
// A check of every rank in every round would be slow if only one rank can continue. Therefore only ranks that
// may have become ready are checked. Each of them is checked in the same round as if all ranks were checked:
//
//   rank          0    1    2    3              turn of rank 2: it sends to ranks 1 and 3
//   now                     ^    x              3 has its turn later in this round,
//   later              x                        1 has already had its turn, so it follows in the next round
//
// A check of a rank that is not ready changes nothing, so additional checks are harmless. Tested by
// take_turns_test.cpp.

#include "schedules/passes/take_turns.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/turn_state.hpp"

namespace penstock {

std::string input_name(const Action& action, std::int32_t giver) {
  return fmt::format("{}{}{}", giver, action.kind == ActionKind::forward ? "F" : "B", action.microbatch);
}

std::string stuck_line(std::int32_t rank, std::int64_t position, const Action& group_front,
                       const std::string& awaited) {
  return fmt::format("\n  rank {} at position {}: {} waits for {}", rank, position, to_text(group_front),
                     awaited);
}

LoopHeads::LoopHeads(std::span<const ActionLoops> lists) {
  for (const ActionLoops& list : lists) {
    Head& head = heads_.emplace_back();
    head.cursor = list.begin();
    spell_out(head);
  }
}

/// Copies the actions of the rank's next group into a vector. The caller needs a span of actions in memory,
/// but a cursor in the loops returns actions by value.
void LoopHeads::spell_out_group(Head& head) {
  head.group.assign(1, head.first);
  for (LoopCursor next = head.cursor; head.group.back().overlaps_next;) head.group.push_back(*++next);
}

CollectiveCounts::CollectiveCounts(const Placement& placement)
    : placement_(placement), groups_(2 * placement.stages.size()) {}

CollectiveCounts::Group& CollectiveCounts::group_of(const Action& collective) {
  const bool unshards = collective.kind == ActionKind::unshard;
  Group& group = groups_[2 * index(collective.stage) + (unshards ? 1 : 0)];
  if (group.members.empty()) {
    group.members = placement_.stages[index(collective.stage)].ranks;
    // The group is created for the stage's first collective. Its members are sorted, so that a binary search
    // finds a rank.
    std::ranges::sort(group.members);
    group.passed.assign(group.members.size(), 0);
  }
  return group;
}

std::size_t& CollectiveCounts::passed_by(Group& group, std::int32_t rank) {
  const auto member = std::ranges::lower_bound(group.members, rank);
  return group.passed[static_cast<std::size_t>(member - group.members.begin())];
}

// Each member stores the number of collectives that it has passed. met[k] is the k-th collective. It stores
// how many members have reached it and how many have joined it.
std::size_t CollectiveCounts::next_of(const Action& collective, std::int32_t rank) {
  return passed_by(group_of(collective), rank);
}

bool CollectiveCounts::reach(const Action& collective, std::int32_t rank) {
  Group& group = group_of(collective);
  const std::size_t number = passed_by(group, rank);
  // The first member that reaches its k-th collective creates the entry for all members.
  if (number == group.met.size()) group.met.emplace_back();
  return ++group.met[number].reached == group.members.size();
}

bool CollectiveCounts::all_reached(const Action& collective, std::size_t number) {
  const Group& group = group_of(collective);
  return group.met[number].reached == group.members.size();
}

bool CollectiveCounts::join(const Action& collective, std::int32_t rank) {
  Group& group = group_of(collective);
  const std::size_t number = passed_by(group, rank)++;
  return ++group.met[number].joined == group.members.size();
}

bool CollectiveCounts::all_joined(const Action& collective, std::int32_t rank) {
  Group& group = group_of(collective);
  const std::size_t passed = passed_by(group, rank);
  // A rank that has not passed any collective does not wait for one.
  return passed == 0 || group.met[passed - 1].joined == group.members.size();
}

// Looks up the routes of an action. The actions of a stage have only a few different sets of routes, so these
// sets are prepared once for each stage. The routes of a stage are stored in such an order that each set is a
// range:
//
//   activations received | activations sent | gradients received | gradients sent
//   F -------------------------------------   B, I ------------------------------
//                                             late R -----------

ActionWays::ActionWays(const Program& program) : edges_(program) {
  for (std::size_t kind = 0; kind < like_.size(); ++kind)
    like_[kind] = like_of(static_cast<ActionKind>(kind), program.recompute);
  needs_.reserve(program.placement.stages.size() * kLikes);
  // Each route is stored at both of its stages. No entry may move later, because pointers to entries exist.
  ways_.reserve(2 * count());
  const Placement& placement = program.placement;
  for (std::int32_t stage = 0; stage < program.stage_count(); ++stage) {
    // For each group of kinds, three pointers mark a range of routes. Routes between the first and the second
    // pointer receive. Routes between the second and the third pointer send.
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

/// Returns the group to which an action kind belongs. Kinds that receive the same data form one group. W,
/// an early R and kinds that are not compute actions receive nothing.
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
    if (!carries(placement, ends, flow)) continue;
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
