#pragma once
// Finds messages that cross: a SEND meets the RECV of another message, because the two ranks list their
// messages in different orders.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// A SEND and a RECV that meet in a FIFO although they belong to different messages.
struct CrossedMessage {
  /// The rank that sends.
  std::int32_t rank = 0;
  /// The position of the SEND in the rank's list, from 0.
  std::int32_t position = 0;
  Action send;
  /// The rank that receives.
  std::int32_t peer = 0;
  /// The position of the RECV in the peer's list, from 0.
  std::int32_t peer_position = 0;
  Action receive;

  friend bool operator==(const CrossedMessage&, const CrossedMessage&) = default;
};

/// Finds every SEND that meets the RECV of another message under `model`. The result is ordered by sending
/// rank and list position. The k-th SEND in a FIFO of the model meets the k-th RECV in this FIFO. Requires a
/// validated, lowered program.
std::vector<CrossedMessage> crossed_messages(const Program& lowered, ChannelModel model);

// A lowered program in flat vectors, for code that executes it step by step (rendezvous_walk.hpp, the event
// engine of sim/). The vectors contain all iterations. Each SEND is joined with its RECV, and messages are
// linked into queues.

/// The index that means "none" in the fields of FlatMessage and FlatProgram.
inline constexpr std::int32_t kNone = -1;

/// The operation at a position in a rank's list.
enum class FlatOp : std::uint8_t {
  compute,  // F, B, I, W, R or STEP; for an overlapped group, its first action
  leaf,     // a later action of an overlapped group, which needs no operation
  send,
  recv,
  collective,  // UNSHARD, REDUCE_GRAD; also OFFLOAD and RELOAD, as collectives of one rank
  reshard,
  wait,     // WAIT_SEND_F, WAIT_SEND_B, WAIT_REDUCE_GRAD
  barrier,  // a wait of all ranks between iterations, without an action
};

/// A message between two ranks, a collective of a group, a copy to or from a host, or a barrier of all ranks.
/// `pending` is the number of conditions that must be met before it can start. A copy (OFFLOAD, RELOAD) is a
/// collective of one rank with queues of its own, one for each direction.
struct FlatMessage {
  /// The position of the SEND, or of the first member's collective action.
  std::int32_t first = kNone;
  /// The position of the RECV; kNone for collectives and barriers.
  std::int32_t recv = kNone;
  /// The position of the compute action that produces the data of a transfer.
  std::int32_t producer = kNone;
  /// The ranks that send and receive a transfer.
  std::int32_t from_rank = 0;
  std::int32_t to_rank = 0;
  /// The next message in the sender's FIFO.
  std::int32_t next_at_sender = kNone;
  /// The next message in the receiver's FIFO. An OFFLOAD has the number of its RELOAD here.
  std::int32_t next_at_receiver = kNone;
  /// The next message for which the same compute action must free capacity
  /// (FlatProgram::released_by_consumer).
  std::int32_t next_of_capacity = kNone;
  std::int32_t pending = 0;
  bool eager = false;
  /// True if another compute action or a barrier is between the producer and the SEND in the list.
  bool late = false;
  /// True if a compute action waits for this transfer.
  bool awaited = false;
  /// True if the sender has a WAIT for this transfer.
  bool send_awaited = false;
  /// The size of a transfer in bytes.
  Bytes bytes = 0;
};

/// A lowered program in flat vectors. The positions of rank r are [rank_begin[r], rank_begin[r+1]), in
/// program order.
struct FlatProgram {
  std::int32_t rank_count = 0;
  std::vector<std::int32_t> rank_begin;
  /// The actions. Microbatch numbers and weight versions continue from one iteration to the next.
  std::vector<Action> actions;
  std::vector<FlatOp> ops;
  /// The number of the message at each position that has a SEND, RECV, collective or barrier.
  std::vector<std::int32_t> message;
  /// For each compute action and each WAIT, a linked list of the positions for which it waits. The entry at
  /// its own position is the first of them, and the entry at each listed position is the next one. A compute
  /// action waits for RECVs and collectives, and a WAIT for SENDs and collectives.
  std::vector<std::int32_t> next_wait;
  std::vector<FlatMessage> messages;
  /// The position of the same collective or barrier in the list of the next member. Empty if the program
  /// has neither.
  std::vector<std::int32_t> next_member;
  /// The next position in the queue of a rank's collectives, or in a queue of its copies. Empty if the
  /// program has none.
  std::vector<std::int32_t> next_collective;
  /// For each compute position, the first message that waits until this action frees a place in a queue.
  /// Empty if the capacity is not limited.
  std::vector<std::int32_t> released_by_consumer;
  /// The groups of transfers. The entry of a position is the first position of its group, or kNone if it is
  /// in no group. When a rank reaches a group, it posts all transfers of the group together. It continues
  /// when all of them have ended, or at once (waits_in_group()). A group may contain collectives and
  /// RESHARDs between its transfers. Empty if ranks wait for no transfers and lists state no groups.
  std::vector<std::int32_t> transfer_group;
  /// True if ranks wait for all their transfers, also for those of groups with Action::no_wait.
  bool all_wait = false;
  /// True if a list has a WAIT.
  bool has_waits = false;
  /// True if the host needs time to launch actions or may launch only a limited number ahead. `most_ahead` is
  /// the largest number of compute actions that a host launches ahead; 0 means no limit.
  bool has_launches = false;
  std::int32_t most_ahead = 0;

  std::int32_t position_count() const { return static_cast<std::int32_t>(ops.size()); }
  /// Returns the position after the group of compute actions that starts at a compute position.
  std::int32_t group_end(std::int32_t position) const {
    std::int32_t end = position + 1;
    while (end < position_count() && ops[static_cast<std::size_t>(end)] == FlatOp::leaf) ++end;
    return end;
  }
  /// Returns true if the position belongs to a group of transfers.
  bool is_grouped(std::int32_t position) const {
    return !transfer_group.empty() && transfer_group[static_cast<std::size_t>(position)] != kNone;
  }
  /// Returns true if the position belongs to a group of transfers for which its rank waits.
  bool waits_in_group(std::int32_t position) const {
    return is_grouped(position) && (all_wait || !actions[static_cast<std::size_t>(position)].no_wait);
  }
  /// Returns the position after the group of transfers whose first position is `first`.
  std::int32_t transfer_group_end(std::int32_t first) const {
    std::int32_t end = first + 1;
    while (end < position_count() && transfer_group[static_cast<std::size_t>(end)] == first) ++end;
    return end;
  }
  /// Returns true if the message is an OFFLOAD or RELOAD.
  bool is_host_copy(const FlatMessage& what) const {
    return what.recv == kNone && penstock::is_host_copy(actions[static_cast<std::size_t>(what.first)].kind);
  }
  /// Returns the rank that has a position. Uses binary search.
  std::int32_t rank_of(std::int32_t position) const;
};

/// The properties of the transport that change the flat program, and the number of iterations in it.
struct FlattenOptions {
  ChannelOptions channels;
  std::int32_t iterations = 1;
  /// The SENDs that meet the RECV of another message. Each is joined with the RECV that it meets. The
  /// microbatch numbers are those of one iteration.
  std::vector<CrossedMessage> crossed{};
};

/// Returns the program `lowered` in flat vectors. Requires that it is validated and has fewer than 2^31
/// actions over all iterations.
FlatProgram flatten(const Program& lowered, const CostTable& costs, const FlattenOptions& options);

/// Returns `flat` with the message sizes that follow from `costs`. Requires that `flat` was made without an
/// eager size.
FlatProgram with_bytes_of(FlatProgram flat, const Program& lowered, const CostTable& costs);

}  // namespace penstock
