#pragma once
// The classes of a tape while it is written (compile.cpp): which durations and which links are the same.

#include <cstdint>
#include <vector>

#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "sim/engines/numbering.hpp"
#include "sim/engines/queue_registers.hpp"
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

  /// The link class of a transfer that passes the queues. Notes when they differ.
  std::uint32_t link_of(const FlatMessage& transfer, const QueueEnds& queues);
  /// The link class of instructions without a message that raise register `a`.
  std::uint32_t link_of_none(Register a) {
    if (a < unlinked_.size() && unlinked_[a] != kNoClass) return unlinked_[a];
    return new_link_of_none(a);
  }

 private:
  static constexpr std::uint32_t kNoClass = 0xffff'ffff;

  std::uint32_t new_link_of_none(Register a);
  std::uint32_t new_link_of(const FlatMessage& transfer, const Numbering<6>::Key& key);
  std::uint32_t new_link(const LinkClass& link);
  std::uint32_t longer_group(std::int32_t position, std::int32_t end);
  std::uint32_t new_duration(std::int32_t position, std::int32_t end);

  /// The transfer of a stage and kind that was asked for last: mostly the next is like it.
  struct Recent {
    Register sender = kNoRegister;
    Register receiver = kNoRegister;
    std::int32_t from_rank = kNone;
    std::int32_t to_rank = kNone;
    std::int32_t peer = kNoPeer;
    std::uint32_t link = kNoClass;
  };

  std::uint32_t place_of(const Action& action) const;

  const FlatProgram& flat_;
  MicrobatchGroups groups_;
  std::uint32_t stage_count_;
  Tape& tape_;
  std::vector<std::uint32_t> single_;  // duration class by group of microbatches, stage and kind
  Numbering<3> longer_;                // groups: what the last leaf stands behind, and that leaf
  std::vector<std::uint32_t> of_longer_;
  Numbering<4> transfers_;
  Numbering<6> linked_;                   // both queues, both ranks, stage and kind of the SEND, its peer
  std::vector<Recent> recent_;            // by stage and kind
  std::vector<std::uint32_t> of_linked_;  // link classes
  std::vector<std::uint32_t> unlinked_;   // link classes by register
};

}  // namespace penstock
