#pragma once
// The format of a tape, which is a compiled program. A tape is a list of instructions that compute the times
// of actions and messages. It contains the dependencies but no durations. evaluate.hpp makes tapes and runs
// them with one or several tables of costs.
//
// One instruction raises one clock and sends at most one message:
//
//   x = max(v[a], v[b]) + w;   v[a] = x
//   y = max(x, v[c], v[e]) + hold;   v[c] = v[e] = y;   v[d] = y + latency
//
// The registers v contain the times of ranks' clocks, of launching hosts, of the queues at both ends of
// channels, of messages in flight, and of messages that still wait. The duration class of the instruction
// determines w. Its link class determines c, e, hold and latency. An instruction without a second input has b
// = a, and one without a message has c = e = a. No term is constant, so a tape is a homogeneous max-plus map
// (Baccelli et al., Synchronization and Linearity, 1992, chapter 3): if all clocks start t later, all results
// are t later.

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

/// The number of cost tables with which one pass over a tape can run at once (evaluate.hpp). Their 64-bit
/// times fill one cache line.
inline constexpr std::size_t kLanes = 8;
inline constexpr std::size_t kLaneBytes = kLanes * sizeof(Ns);

/// One instruction of a tape; the comment at the top of this file defines its meaning. `Class` is the integer
/// type of the numbers of duration classes and link classes.
template <class Class>
struct Instruction {
  Register a = 0;
  Register b = 0;
  Register d = 0;
  Class duration = 0;
  Class link = 0;
};
using NarrowInstruction = Instruction<std::uint16_t>;
// Instructions of tapes with more than 2^16 duration or link classes.
using WideInstruction = Instruction<std::uint32_t>;

/// The groups of microbatches that cost the same. Microbatches m and m + `count` are in one group.
struct MicrobatchGroups {
  std::int32_t count = 1;   ///< 1 if all microbatches cost the same
  std::int32_t slices = 1;  ///< number of slices of one microbatch

  /// Returns a number that identifies the stage and the group of an action. An action without a microbatch is
  /// in group 0.
  std::size_t place_of(const Action& action) const {
    const std::int32_t group =
        count == 1 || action.microbatch == kNoMicrobatch ? 0 : action.microbatch / slices % count;
    return static_cast<std::size_t>(action.stage) * static_cast<std::size_t>(count) +
           static_cast<std::size_t>(group);
  }

  friend bool operator==(const MicrobatchGroups&, const MicrobatchGroups&) = default;
};

/// A duration class: a number for the instructions that take one duration. It has the actions that determine
/// this duration: a group of compute actions, a collective, or a launch by a host. A class with neither
/// actions nor a launch takes 0 ns.
struct DurationClass {
  std::uint32_t first = 0;  ///< index into Tape::class_actions
  std::uint32_t count = 0;
  bool launches = false;  ///< true if the class is the launch of one action of any kind
};
/// The number of the duration class of 0 ns, which every tape has.
inline constexpr std::uint32_t kNoTime = 0;

/// A transfer class: all messages of one stage edge and direction from one rank to another.
struct TransferClass {
  std::int32_t from_rank = 0;
  std::int32_t to_rank = 0;
  Action send;  ///< a SEND_F or SEND_B with any microbatch of the group
};

/// A link class: the queues that a message passes, and its transfer class. For instructions without a
/// message, the class has no transfer.
struct LinkClass {
  static constexpr std::int32_t kNoTransfer = -1;

  /// Queue at the sender; it is also the queue at the receiver if both hold the same messages.
  Register c = 0;
  Register e = 0;  ///< queue at the receiver; equal to c if it has no register of its own
  std::int32_t transfer = kNoTransfer;  ///< index into Tape::transfers
};

/// The action and the message to which an instruction belongs. `position` is the position of the action in
/// the flat program. `message` is the message that the instruction starts, or the collective that it ends.
/// Each is -1 if there is none.
struct Origin {
  std::int32_t position = -1;
  std::int32_t message = -1;
};

/// The queues that a pass over a tape must model. With `none`, no message ever waits for a queue. With
/// `one_end`, each message may wait for one queue, and with `both_ends` for the queues of its sender and
/// receiver.
enum class QueuesFollowed : std::uint8_t { none, one_end, both_ends };

struct Tape {
  std::variant<std::vector<NarrowInstruction>, std::vector<WideInstruction>> code;
  std::vector<Origin> origins;  ///< one for each instruction
  std::vector<DurationClass> durations;
  /// The actions of all duration classes, one class after another. The microbatch of an action is only an
  /// example from its group of microbatches.
  std::vector<Action> class_actions;
  std::vector<TransferClass> transfers;
  std::vector<LinkClass> links;
  MicrobatchGroups groups;  ///< the groups of microbatches that have their own duration classes
  std::int32_t rank_count = 0;
  /// The number of registers. Registers 0 to rank_count - 1 are the ranks' clocks. Register `last` holds
  /// the latest end of the messages for which no rank waits.
  Register register_count = 0;
  Register last = 0;
  bool both_ends = false;  ///< true if c and e differ for some link
  /// The duration classes of the instructions that send messages. Absent if several ranks send through one
  /// queue, or if a register other than a rank's clock starts a message.
  std::optional<std::vector<std::uint32_t>> senders;

  std::size_t size() const { return origins.size(); }
  std::span<const Action> actions_of(const DurationClass& duration) const {
    return std::span(class_actions).subspan(duration.first, duration.count);
  }
};

}  // namespace penstock
