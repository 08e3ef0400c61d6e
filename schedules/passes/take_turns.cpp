// Ranks take turns in ascending order, round by round, one action (or overlapped group) a turn. An action is
// ready when everything that it reads is on its rank: made there, or sent to it. A collective is placed on
// all its members when each has it at its head. Where that stalls, because a member has to compute for
// another one before that can come as far (buckets of uneven replica groups), one rank after another joins
// its collective and goes on up to what waits for it.
//
// Asking every rank in every round gives this order, and takes as many questions as there are ranks where
// only one can go on. So only those are asked to whom something has happened, and in the round in which
// asking all of them would have found it:
//
//   rank          0    1    2    3              turn of rank 2: it sends to 1 and to 3
//   now                     ^    x              3 is still to come in this round,
//   later              x                        1 has had its turn and comes in the next one
//
// A rank that is asked in vain changes nothing, so a set that is too large does no harm.

#include "schedules/passes/take_turns.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <fmt/format.h>

#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/index.hpp"
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

/// A cursor gives actions by value: here the leaves of a group lie side by side, as a span has to have
/// them.
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
    // Made when the stage's first collective is met, and sorted, so that a member is found by its rank.
    std::ranges::sort(group.members);
    group.passed.assign(group.members.size(), 0);
  }
  return group;
}

std::size_t& CollectiveCounts::passed_by(Group& group, std::int32_t rank) {
  const auto member = std::ranges::lower_bound(group.members, rank);
  return group.passed[static_cast<std::size_t>(member - group.members.begin())];
}

// Members keep a number each, the collectives a count of members each: the k-th of a member is met[k] for
// all.
std::size_t CollectiveCounts::next_of(const Action& collective, std::int32_t rank) {
  return passed_by(group_of(collective), rank);
}

bool CollectiveCounts::reach(const Action& collective, std::int32_t rank) {
  Group& group = group_of(collective);
  const std::size_t number = passed_by(group, rank);
  // The first member to come to its k-th collective opens it for all.
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
  // A rank that has passed none waits for none.
  return passed == 0 || group.met[passed - 1].joined == group.members.size();
}

}  // namespace penstock
