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
#include <vector>

#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {
namespace {

constexpr std::uint32_t kActionKindCount = static_cast<std::uint32_t>(ActionKind::step) + 1;

/// The entry at `place` of a table that grows as it is asked.
std::uint32_t& entry(std::vector<std::uint32_t>& table, std::size_t place, std::uint32_t unknown) {
  if (place >= table.size()) table.resize(place + 1, unknown);
  return table[place];
}

}  // namespace

TapeClasses::TapeClasses(const FlatProgram& flat, const MicrobatchGroups& groups, Tape& tape)
    : flat_(flat), groups_(groups), tape_(tape) {
  tape_.durations.emplace_back();
}

std::uint32_t TapeClasses::place_of(const Action& action) const {
  return static_cast<std::uint32_t>(groups_.place_of(action)) * kActionKindCount +
         static_cast<std::uint32_t>(action.kind);
}

std::uint32_t TapeClasses::duration_at(std::int32_t position) {
  const bool collective = flat_.ops[index(position)] == FlatOp::collective;
  const std::int32_t end = collective ? position + 1 : flat_.group_end(position);
  if (end > position + 1) return longer_group(position, end);
  std::uint32_t& known = entry(single_, place_of(flat_.actions[index(position)]), kNoClass);
  if (known == kNoClass) known = new_duration(position, end);
  return known;
}

std::uint32_t TapeClasses::longer_group(std::int32_t position, std::int32_t end) {
  std::uint32_t leaves = place_of(flat_.actions[index(position)]);
  std::uint32_t count = 1;
  for (std::int32_t leaf = position + 1; leaf < end; ++leaf)
    leaves = longer_.of({count++, leaves, place_of(flat_.actions[index(leaf)])}).number;
  std::uint32_t& known = entry(of_longer_, leaves, kNoClass);
  if (known == kNoClass) known = new_duration(position, end);
  return known;
}

std::uint32_t TapeClasses::new_duration(std::int32_t position, std::int32_t end) {
  const auto first = flat_.actions.begin() + position;
  tape_.durations.push_back({.actions = {first, first + (end - position)}});
  return static_cast<std::uint32_t>(tape_.durations.size() - 1);
}

std::uint32_t TapeClasses::new_link_of_none(Register a) {
  tape_.links.push_back({.c = a, .e = a, .transfer = LinkClass::kNoTransfer});
  return entry(unlinked_, a, kNoClass) = static_cast<std::uint32_t>(tape_.links.size() - 1);
}

}  // namespace penstock
