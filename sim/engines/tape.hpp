#pragma once
// A compiled program: what follows from what, without a single duration. Made by compile.hpp, timed by
// evaluate.hpp, several cost tables at once by lanes.hpp.
//
// One instruction raises one clock, and sends one message along:
//
//   x = max(v[a], v[b]) + w;   v[a] = x
//   y = max(x, v[c], v[e]) + hold;   v[c] = v[e] = y;   v[d] = y + latency
//
// v are registers: the ranks' clocks, those of their hosts where these launch, the queues at both ends of the
// channels, messages under way, and messages that still wait for something. w is looked up by the
// instruction's duration class; c, e, hold and latency by its link class. An instruction without a second
// input has b = a, one without a message has c = e = a. Nothing in it is constant, so a tape is a homogeneous
// max-plus map (Baccelli et al., Synchronization and Linearity, 1992, chapter 3): all clocks moved by t move
// the answer by t.

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

/// How many tables of costs one pass over a tape may take (lanes.hpp): a cache line of 64-bit times.
inline constexpr std::size_t kLanes = 8;
inline constexpr std::size_t kLaneBytes = kLanes * sizeof(Ns);

/// One step, as the head of this file has it. `Class` counts duration and link classes.
template <class Class>
struct Instruction {
  Register a = 0;
  Register b = 0;
  Register d = 0;
  Class duration = 0;
  Class link = 0;
};
using NarrowInstruction = Instruction<std::uint16_t>;
using WideInstruction = Instruction<std::uint32_t>;  // for programs of more than 2^16 classes

/// Which microbatches may cost the same: m, and those that are m mod `count` after it.
struct MicrobatchGroups {
  std::int32_t count = 1;   ///< 1: all cost the same
  std::int32_t slices = 1;  ///< units of one microbatch

  /// Numbers a stage's actions of one group; without a microbatch they are of group 0.
  std::size_t place_of(const Action& action) const {
    const std::int32_t group =
        count == 1 || action.microbatch == kNoMicrobatch ? 0 : action.microbatch / slices % count;
    return static_cast<std::size_t>(action.stage) * static_cast<std::size_t>(count) +
           static_cast<std::size_t>(group);
  }

  friend bool operator==(const MicrobatchGroups&, const MicrobatchGroups&) = default;
};

/// What an instruction's duration belongs to: a group of compute actions, a collective, or a launch by a
/// host. Neither actions nor a launch: nothing, 0 ns.
struct DurationClass {
  std::uint32_t first = 0;  ///< index into Tape::class_actions
  std::uint32_t count = 0;
  bool launches = false;  ///< of one action, any
};
/// The class of nothing, in every tape.
inline constexpr std::uint32_t kNoTime = 0;

/// A way from one rank to another: what a transfer of one stage edge in one direction takes there.
struct TransferClass {
  std::int32_t from_rank = 0;
  std::int32_t to_rank = 0;
  Action send;  ///< SEND_F or SEND_B; of its microbatch the group matters
};

/// The queues that a message passes, and which transfer it is; none for instructions without a message.
struct LinkClass {
  static constexpr std::int32_t kNoTransfer = -1;

  Register c = 0;  ///< at the sender's end, and at the receiver's where that holds the same
  Register e = 0;  ///< at the receiver's end; c where it does not bind or is the same
  std::int32_t transfer = kNoTransfer;  ///< index into Tape::transfers
};

/// A position of the flat program whose action an instruction ends, and the message that it starts (or, of a
/// collective, ends); kNone where it does neither.
struct Origin {
  std::int32_t position = -1;
  std::int32_t message = -1;
};

/// Which queues of a message a pass has to look at: none where no message ever finds one taken.
enum class QueuesFollowed : std::uint8_t { none, one_end, both_ends };

struct Tape {
  std::variant<std::vector<NarrowInstruction>, std::vector<WideInstruction>> code;
  std::vector<Origin> origins;  ///< one an instruction
  std::vector<DurationClass> durations;
  std::vector<Action> class_actions;  ///< of duration classes; of their microbatches the groups matter
  std::vector<TransferClass> transfers;
  std::vector<LinkClass> links;
  MicrobatchGroups groups;  ///< that classes tell apart
  std::int32_t rank_count = 0;
  /// Registers 0 to rank_count - 1 are the ranks' clocks, `last` the latest end of what no rank waits for.
  Register register_count = 0;
  Register last = 0;
  bool both_ends = false;  ///< some link has c != e
  /// Duration classes of the instructions that send, where what passes a queue is sent by one rank's clock;
  /// nothing where some queue takes messages of several, or of anything else.
  std::optional<std::vector<std::uint32_t>> senders;

  std::size_t size() const { return origins.size(); }
  std::span<const Action> actions_of(const DurationClass& duration) const {
    return std::span(class_actions).subspan(duration.first, duration.count);
  }
};

}  // namespace penstock
