// Groups of actions of the same kinds on the same stages have one duration class; where microbatches differ,
// of microbatches that cost the same. Alone, an action is looked up by group of microbatches, stage and kind;
// a longer group leaf by leaf, as a path in a tree:
//
//   (0F5;3B2)   first 0F -> its place in the table; then (0F, 3B) -> number of that pair
//
// Numbers follow the order in which classes are met, and so does the tape's list of them.

#include "sim/engines/tape_classes.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {
namespace {

/// The entry at `place` of a table that grows as it is asked.
std::uint32_t& entry(std::vector<std::uint32_t>& table, std::size_t place, std::uint32_t unknown) {
  if (place >= table.size()) table.resize(place + 1, unknown);
  return table[place];
}

}  // namespace

TapeClasses::TapeClasses(const MicrobatchGroups& groups, Tape& tape) : groups_(groups), tape_(tape) {
  tape_.durations.emplace_back();
}

std::uint32_t TapeClasses::new_single(std::uint32_t place, std::span<const Action> group) {
  return entry(single_, place, kNoClass) = new_duration({.actions = {group.begin(), group.end()}});
}

std::uint32_t TapeClasses::longer_group(std::span<const Action> group) {
  std::uint32_t leaves = place_of(group.front());
  std::uint32_t count = 1;
  for (const Action& leaf : group.subspan(1)) leaves = longer_.of({count++, leaves, place_of(leaf)}).number;
  std::uint32_t& known = entry(of_longer_, leaves, kNoClass);
  if (known == kNoClass) known = new_duration({.actions = {group.begin(), group.end()}});
  return known;
}

std::uint32_t TapeClasses::new_duration(DurationClass of) {
  tape_.durations.push_back(std::move(of));
  return static_cast<std::uint32_t>(tape_.durations.size() - 1);
}

std::uint32_t TapeClasses::new_link_of_none(Register a) {
  tape_.links.push_back({.c = a, .e = a, .transfer = LinkClass::kNoTransfer});
  return entry(unlinked_, a, kNoClass) = static_cast<std::uint32_t>(tape_.links.size() - 1);
}

}  // namespace penstock
