#pragma once
// A compiled program: the dependencies between actions and messages, without durations. compile.hpp makes it,
// evaluate.hpp times it, and evaluate.hpp times it under several cost tables at once.
//
// One instruction raises one clock and sends at most one message:
//
//   x = max(v[a], v[b]) + w;   v[a] = x
//   y = max(x, v[c], v[e]) + hold;   v[c] = v[e] = y;   v[d] = y + latency
//
// The registers v are the clocks of ranks and launching hosts, the queues at both ends of channels, messages
// in flight, and messages that still wait. The duration class of the instruction gives w; its link class
// gives c, e, hold and latency. An instruction without a second input has b = a; one without a message has c
// = e = a. No term is constant, so a tape is a homogeneous max-plus map (Baccelli et al., Synchronization and
// Linearity, 1992, chapter 3): if all clocks start t later, all results are t later.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {

using Register = std::uint32_t;
inline constexpr Register kNoRegister = std::numeric_limits<Register>::max();

/// The number of cost tables in one pass over a tape (evaluate.hpp): 64-bit times that fill a cache line.
inline constexpr std::size_t kLanes = 8;
inline constexpr std::size_t kLaneBytes = kLanes * sizeof(Ns);

/// One instruction, as defined at the top of this file. `Class` is the type of duration and link class
/// numbers.
template <class Class>
struct Instruction {
  Register a = 0;
  Register b = 0;
  Register d = 0;
  Class duration = 0;
  Class link = 0;
};
using NarrowInstruction = Instruction<std::uint16_t>;
using WideInstruction = Instruction<std::uint32_t>;  // for programs with more than 2^16 classes

/// The groups of microbatches that cost the same. Microbatches m and m + `count` are in one group.
struct MicrobatchGroups {
  std::int32_t count = 1;   ///< 1: all microbatches cost the same
  std::int32_t slices = 1;  ///< units (slices) of one microbatch

  /// Returns a number for the stage and the group of an action. An action without a microbatch is in group 0.
  std::size_t place_of(const Action& action) const {
    const std::int32_t group =
        count == 1 || action.microbatch == kNoMicrobatch ? 0 : action.microbatch / slices % count;
    return static_cast<std::size_t>(action.stage) * static_cast<std::size_t>(count) +
           static_cast<std::size_t>(group);
  }

  friend bool operator==(const MicrobatchGroups&, const MicrobatchGroups&) = default;
};

/// The source of an instruction's duration: a group of compute actions, a collective, or a launch by a host.
/// A class with neither actions nor a launch takes 0 ns.
struct DurationClass {
  std::uint32_t first = 0;  ///< index into Tape::class_actions
  std::uint32_t count = 0;
  bool launches = false;  ///< true: the launch of one action of any kind
};
/// The class with a duration of 0 ns, which every tape has.
inline constexpr std::uint32_t kNoTime = 0;

/// The transfers of one stage edge and direction from one rank to another.
struct TransferClass {
  std::int32_t from_rank = 0;
  std::int32_t to_rank = 0;
  Action send;  ///< a SEND_F or SEND_B; only the group of its microbatch matters
};

/// The queues that a message passes, and its transfer class. An instruction without a message has no
/// transfer.
struct LinkClass {
  static constexpr std::int32_t kNoTransfer = -1;

  Register c = 0;  ///< queue at the sender, and also at the receiver if both queues hold the same messages
  Register e = 0;  ///< queue at the receiver; equal to c if it never delays the message or is the same queue
  std::int32_t transfer = kNoTransfer;  ///< index into Tape::transfers
};

/// The position in the flat program of the action that an instruction ends, and the message that it starts.
/// For a collective, `message` is the collective that it ends. kNone if there is none.
struct Origin {
  std::int32_t position = -1;
  std::int32_t message = -1;
};

/// The queues of a message that a pass must check: none if no message ever has to wait for a queue.
enum class QueuesFollowed : std::uint8_t { none, one_end, both_ends };

struct Tape {
  std::variant<std::vector<NarrowInstruction>, std::vector<WideInstruction>> code;
  std::vector<Origin> origins;  ///< one for each instruction
  std::vector<DurationClass> durations;
  std::vector<Action> class_actions;  ///< actions of the classes; only their groups of microbatches matter
  std::vector<TransferClass> transfers;
  std::vector<LinkClass> links;
  MicrobatchGroups groups;  ///< groups of microbatches that have different classes
  std::int32_t rank_count = 0;
  /// Registers 0 to rank_count - 1 are the ranks' clocks. `last` is the latest end of messages that no rank
  /// waits for.
  Register register_count = 0;
  Register last = 0;
  bool both_ends = false;  ///< true if c and e differ for some link
  /// Duration classes of the instructions that send, if all messages of each queue are sent by one rank's
  /// clock. Nothing if some queue has messages of several ranks or of another sender.
  std::optional<std::vector<std::uint32_t>> senders;

  std::size_t size() const { return origins.size(); }
  std::span<const Action> actions_of(const DurationClass& duration) const {
    return std::span(class_actions).subspan(duration.first, duration.count);
  }
};

}  // namespace penstock
