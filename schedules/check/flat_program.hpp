#pragma once
// A lowered program laid out flat for whoever executes it step by step (rendezvous_walk.hpp, the event
// engine of sim/): iterations unrolled, SEND matched with RECV, queues threaded through the messages.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedules/check/crossed_messages.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// "None" for the indices below.
inline constexpr std::int32_t kNone = -1;

/// What a position of a rank's list asks for.
enum class FlatOp : std::uint8_t {
  compute,  // F, B, I, W, R, STEP; the first leaf of an overlapped group
  leaf,     // a further leaf of the group before it: nothing to do
  send,
  recv,
  collective,  // UNSHARD, REDUCE_GRAD
  reshard,
  barrier,  // between iterations; has no action of its own
};

/// A message between two ranks, a collective of a group, or a barrier of all ranks. `pending` counts what
/// must happen before it can start.
struct FlatMessage {
  std::int32_t first = kNone;     ///< position of the SEND, or of the first member's collective action
  std::int32_t recv = kNone;      ///< position of the RECV; kNone for collectives
  std::int32_t producer = kNone;  ///< position of the compute action whose end a transfer waits for
  std::int32_t from_rank = 0;     ///< transfers only
  std::int32_t to_rank = 0;
  std::int32_t next_at_sender = kNone;    ///< the message behind this one in the sender's FIFO
  std::int32_t next_at_receiver = kNone;  ///< the message behind this one in the receiver's FIFO
  std::int32_t next_of_capacity = kNone;  ///< next in the list that released_by_consumer opens
  std::int32_t pending = 0;
  bool eager = false;
  bool late = false;  ///< of a transfer: a later compute action or barrier stands between producer and SEND
  bool awaited = false;  ///< of a transfer: a compute action waits for it
  Bytes bytes = 0;       ///< of a transfer
};

/// All positions of rank r are [rank_begin[r], rank_begin[r+1]), in program order.
struct FlatProgram {
  std::int32_t rank_count = 0;
  std::vector<std::int32_t> rank_begin;
  std::vector<Action> actions;  ///< numbers and versions run on over iterations
  std::vector<FlatOp> ops;
  std::vector<std::int32_t> message;  ///< of send, recv, collective and barrier positions
  /// Of compute positions: the first recv or collective position to wait for; of those: the next such one.
  std::vector<std::int32_t> next_wait;
  std::vector<FlatMessage> messages;
  /// Of collective and barrier positions: the same one on another rank. Empty when the program has none.
  std::vector<std::int32_t> next_member;
  /// Of collective positions: the next one on that rank. Empty when the program has none.
  std::vector<std::int32_t> next_collective;
  /// Of compute positions: the first message that a capacity frees. Empty without a capacity.
  std::vector<std::int32_t> released_by_consumer;
  /// Hosts launch what stands in the lists, and how many compute actions ahead (0: any number).
  bool has_launches = false;
  std::int32_t most_ahead = 0;

  std::int32_t position_count() const { return static_cast<std::int32_t>(ops.size()); }
  /// The position behind the group of compute actions that starts at a compute position.
  std::int32_t group_end(std::int32_t position) const {
    std::int32_t end = position + 1;
    while (end < position_count() && ops[static_cast<std::size_t>(end)] == FlatOp::leaf) ++end;
    return end;
  }
  /// The rank that a position belongs to (binary search).
  std::int32_t rank_of(std::int32_t position) const;
};

/// How the layout depends on the transport, and on message sizes through `eager_bytes`.
struct FlattenOptions {
  ChannelOptions channels;
  std::int32_t iterations = 1;
  /// Messages that meet the RECV of another one: each RECV here is joined to the SEND that it meets instead
  /// of its own. Numbers are those of one pass.
  std::vector<CrossedMessage> crossed{};
};

/// Lays out `lowered`. Requires a validated, lowered program of fewer than 2^31 actions over the
/// iterations.
FlatProgram flatten(const Program& lowered, const CostTable& costs, const FlattenOptions& options);

/// The same layout with what its transfers carry under other costs. Requires no eager size.
FlatProgram with_bytes_of(FlatProgram flat, const Program& lowered, const CostTable& costs);

}  // namespace penstock
