#pragma once
// The duration classes of a tape's instructions while it is written, and the link classes without messages.
// Used by compile.cpp and turn_tape.cpp. Links of messages are in message_ways.hpp.

#include <cstdint>
#include <span>
#include <vector>

#include "schedules/ir/action.hpp"
#include "sim/engines/numbering.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {

/// Numbers classes in the order of their first use, and adds them to the tape. Each call takes constant time.
class TapeClasses {
 public:
  /// Creates the classes of a program with `ranks` ranks. The tape must outlive this object.
  TapeClasses(const MicrobatchGroups& groups, std::int32_t ranks, Tape& tape);

  /// Returns the class of a group of compute actions, or of a collective.
  std::uint32_t duration_of(std::span<const Action> group) {
    if (group.size() > 1) return longer_group(group);
    const std::uint32_t place = place_of(group.front());
    if (place < single_.size() && single_[place] != kNoClass) return single_[place];
    return new_single(place, group);
  }

  /// Returns the class of a launch by a host.
  std::uint32_t launch() {
    if (launch_ == kNoClass) launch_ = new_duration({}, true);
    return launch_;
  }

  /// Returns the link class of instructions that raise register `a` and send no message. The ranks' clocks
  /// have the first link classes.
  std::uint32_t link_of_none(Register a) { return a < ranks_ ? a : link_of_further(a); }

 private:
  static constexpr std::uint32_t kNoClass = 0xffff'ffff;

  std::uint32_t link_of_further(Register a);
  std::uint32_t new_single(std::uint32_t place, std::span<const Action> group);
  std::uint32_t longer_group(std::span<const Action> group);
  std::uint32_t new_duration(std::span<const Action> actions, bool launches);

  static constexpr std::uint32_t kActionKindCount = static_cast<std::uint32_t>(ActionKind::step) + 1;
  std::uint32_t place_of(const Action& action) const {
    return static_cast<std::uint32_t>(groups_.place_of(action)) * kActionKindCount +
           static_cast<std::uint32_t>(action.kind);
  }

  MicrobatchGroups groups_;
  Register ranks_;
  Tape& tape_;
  std::vector<std::uint32_t> single_;  // duration class by group of microbatches, stage and kind
  Numbering<3> longer_;  // longer groups; key: number of leaves, number of the leaves before, last leaf
  std::vector<std::uint32_t> of_longer_;
  std::uint32_t launch_ = kNoClass;
  std::vector<std::uint32_t> unlinked_;  // link class of each register after the ranks' clocks
};

}  // namespace penstock
