#pragma once
// The classes of a tape's instructions while it is written (compile.cpp), but for the links of messages
// (message_ways.hpp).

#include <cstdint>
#include <vector>

#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "sim/engines/numbering.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {

/// Numbers classes in the order in which they are asked for, and lists them in the tape. Each answer takes
/// constant time.
class TapeClasses {
 public:
  /// Both must outlive the classes.
  TapeClasses(const FlatProgram& flat, const MicrobatchGroups& groups, Tape& tape);

  /// The duration class of what takes no time.
  static constexpr std::uint32_t kNoTime = 0;
  /// The class of the group of compute actions that starts at a position, or of the collective there.
  std::uint32_t duration_at(std::int32_t position);

  /// The link class of instructions without a message that raise register `a`.
  std::uint32_t link_of_none(Register a) {
    if (a < unlinked_.size() && unlinked_[a] != kNoClass) return unlinked_[a];
    return new_link_of_none(a);
  }

 private:
  static constexpr std::uint32_t kNoClass = 0xffff'ffff;

  std::uint32_t new_link_of_none(Register a);
  std::uint32_t longer_group(std::int32_t position, std::int32_t end);
  std::uint32_t new_duration(std::int32_t position, std::int32_t end);

  std::uint32_t place_of(const Action& action) const;

  const FlatProgram& flat_;
  MicrobatchGroups groups_;
  Tape& tape_;
  std::vector<std::uint32_t> single_;  // duration class by group of microbatches, stage and kind
  Numbering<3> longer_;                // groups: what the last leaf stands behind, and that leaf
  std::vector<std::uint32_t> of_longer_;
  std::vector<std::uint32_t> unlinked_;  // link class by register
};

}  // namespace penstock
