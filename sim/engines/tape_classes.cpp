// Groups of actions with the same kinds and stages have one duration class; if microbatches differ, their
// groups must agree, too. A single action is looked up by group of microbatches, stage and kind. A longer
// group is looked up leaf by leaf, as a path in a tree:
//
//   (0F5;3B2)   first 0F -> its place in the table; then (0F, 3B) -> number of that pair
//
// Numbers follow the order in which classes are first used, and so does the tape's list.

#include "sim/engines/tape_classes.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {
namespace {

/// Returns the entry at `place`. The table grows if needed.
std::uint32_t& entry(std::vector<std::uint32_t>& table, std::size_t place, std::uint32_t unknown) {
  if (place >= table.size()) table.resize(place + 1, unknown);
  return table[place];
}

}  // namespace

TapeClasses::TapeClasses(const MicrobatchGroups& groups, std::int32_t ranks, Tape& tape)
    : groups_(groups), ranks_(static_cast<Register>(ranks)), tape_(tape) {
  tape_.durations.emplace_back();
  tape_.links.reserve(4 * index(ranks));
  for (Register clock = 0; clock < ranks_; ++clock) tape_.links.push_back({.c = clock, .e = clock});
}

std::uint32_t TapeClasses::new_single(std::uint32_t place, std::span<const Action> group) {
  return entry(single_, place, kNoClass) = new_duration(group, false);
}

std::uint32_t TapeClasses::longer_group(std::span<const Action> group) {
  // The number of leaves is part of the key. So the place of a first leaf and the number of a longer group
  // cannot be confused.
  std::uint32_t leaves = place_of(group.front());
  std::uint32_t count = 1;
  for (const Action& leaf : group.subspan(1)) leaves = longer_.of({count++, leaves, place_of(leaf)}).number;
  std::uint32_t& known = entry(of_longer_, leaves, kNoClass);
  if (known == kNoClass) known = new_duration(group, false);
  return known;
}

std::uint32_t TapeClasses::new_duration(std::span<const Action> actions, bool launches) {
  tape_.durations.push_back({.first = static_cast<std::uint32_t>(tape_.class_actions.size()),
                             .count = static_cast<std::uint32_t>(actions.size()),
                             .launches = launches});
  tape_.class_actions.insert(tape_.class_actions.end(), actions.begin(), actions.end());
  return static_cast<std::uint32_t>(tape_.durations.size() - 1);
}

std::uint32_t TapeClasses::link_of_further(Register a) {
  std::uint32_t& known = entry(unlinked_, a - ranks_, kNoClass);
  if (known != kNoClass) return known;
  tape_.links.push_back({.c = a, .e = a});
  return known = static_cast<std::uint32_t>(tape_.links.size() - 1);
}

}  // namespace penstock
