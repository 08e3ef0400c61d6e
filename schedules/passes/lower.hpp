#pragma once
// Inserts SEND and RECV into a compute program, so that it can run (lowering). The position of the action
// that sends decides the positions of both:
//
//   rank 0   0F0 0F1 0B0 0B1        0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1
//   rank 1   1F0 1B0 1F1 1B1   ->   1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <tl/expected.hpp>

#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "text/enum_words.hpp"

namespace penstock {

/// Returns the program with SEND and RECV actions. A program that already has them or needs none is
/// returned unchanged. Requires that validate(program) succeeds. Fails if the lists cannot be executed in
/// their order. The error message says what each blocked rank waits for.
/// Actions are placed in rounds (take_turns.hpp). When an action is placed, its SENDs are appended to the
/// list of its rank. At the same moment, the matching RECVs are appended to the lists of the receivers. A
/// collective is placed on all its members at once. So each list is a part of one global order. Such lists
/// cannot hang, even with one rendezvous FIFO for each rank. This is the order of PyTorch's _add_send_recv.
/// Sometimes no global order exists, because a rank must continue after a collective before the other
/// members reach it. Then the rank joins the collective early and continues up to the action that waits for
/// the collective. Such a program cannot hang under `directed` channels.
tl::expected<Program, std::string> lower(const Program& program);

/// Like lower(program), but places the RECVs where runtimes with these channels post them. If transfers are
/// batched, each RECV is directly before the compute action that needs it, or earlier if that position would
/// hang. A rank with several stages may also run an F and the B after it without transfers between them, as
/// in Megatron-LM's interleaved schedule. It does so only if the makespan in unit times becomes shorter. A
/// program that already has its messages is returned unchanged.
tl::expected<Program, std::string> lower(const Program& program, const ChannelOptions& channels);

// Computes the digest of a lowered program without its lowered lists.

/// Returns digest(lower(...)) of a program whose compute actions and collectives are in `lists`, by rank.
/// It does not read the lists of `program`. The time is proportional to the number of actions. The memory
/// is a quarter of the lowered lists. Returns nothing if lower() would fail, or if lower() would have to
/// check that the program cannot hang.
std::optional<std::string> lowered_digest(const Program& program, std::span<const ActionLoops> lists);

// A pass that posts each RECV of a lowered program as late as possible.

/// The rule that says which transfers of a lowered program are joined into one group.
enum class Posting : std::uint8_t {
  batched,   // all SENDs and RECVs between two other actions
  megatron,  // those that Megatron-LM posts together
};
template <>
inline constexpr auto kEnumWords<Posting> =
    std::to_array<EnumWord<Posting>>({{Posting::batched, "batched"}, {Posting::megatron, "megatron"}});

/// Returns the program with its transfers joined into groups. Requires a lowered program without groups.
/// Its RECVs must be where lower() places them if transfers are batched.
/// With one stage on each rank, Megatron-LM posts an activation together with a gradient
/// (send_forward_recv_backward and send_backward_recv_forward). It posts two activations or two gradients
/// one after the other. With several stages on each rank, it posts all of them together.
Program group_transfers(Program lowered, Posting posting);

/// Returns the program with each RECV directly before the compute action that needs it. A RECV stays at its
/// position if its move would contribute to a hang under `channels`. The result therefore hangs only if
/// `lowered` hangs. In some channel models (`rank`, `pair`, `direction`), SENDs and RECVs share a queue. A
/// RECV that is moved back no longer delays SENDs that are ready. Requires a validated, lowered program.
/// Makes at most one channel check for each RECV.
Program defer_receives(const Program& lowered, const ChannelOptions& channels, const CostTable& costs);

}  // namespace penstock
