#pragma once
// The order in which a rank launches its communication, and the events for which each launch waits. It is
// used if operations start in the order of their launches (NCCL_LAUNCH_ORDER_IMPLICIT=1).

#include <cstdint>
#include <vector>

#include "schedules/check/flat_program.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"

namespace penstock {

/// Returns true if launch order delays operations. It causes no delay if ranks wait for their transfers,
/// because a waiting rank launches nothing meanwhile.
constexpr bool has_launch_order(const ChannelOptions& channels) {
  return channels.launch_order && !channels.waits();
}

/// The launches of all ranks, without those of OFFLOADs and RELOADs. A launch is identified by the position
/// of its SEND, RECV, collective or barrier. A RECV, a collective and a barrier are launched at their
/// positions. A SEND is launched directly after its producer, or after the last of the earlier transfers of
/// its queue on the rank. The SENDs of one producer are launched in list order.
struct LaunchLists {
  /// The launches of each rank as positions, in the order of launch.
  std::vector<std::vector<std::int32_t>> of_rank;
  /// The number of events that must happen before the launch at each position may start, apart from earlier
  /// launches. For example, the producer of a SEND ends, the rank reaches a collective, or the host launches
  /// the operation. Other events are that earlier transfers of the queue or the rank's previous collective
  /// have ended, and that capacity becomes free.
  std::vector<std::int32_t> missing;
  /// For each compute position, the first message that it produces; kNone if there is none.
  std::vector<std::int32_t> first_sent;
  /// For each message, the next message of the same producer, in list order; kNone for the last.
  std::vector<std::int32_t> next_sent;
};

/// Returns the order of launches in a flat program whose ranks do not wait for transfers.
LaunchLists launch_lists(const FlatProgram& flat);

/// Returns the position of the SEND or the RECV of a transfer, whichever is on `rank`. `rank` must be one
/// of the two ranks.
inline std::int32_t transfer_end_on(const FlatMessage& transfer, std::int32_t rank) {
  return transfer.from_rank == rank ? transfer.first : transfer.recv;
}

/// Returns the number of launches that must start before the message starts: 2 for a transfer, 1 for an eager
/// one, and the number of members for a collective. An OFFLOAD or RELOAD has no place in the launch order.
/// For these, returns `pending`, the number of events they wait for.
inline std::int32_t launches_of(const FlatProgram& flat, const FlatMessage& message) {
  if (message.recv != kNone) return message.eager ? 1 : 2;
  if (flat.is_host_copy(message)) return message.pending;
  std::int32_t members = 0;
  for (std::int32_t m = message.first; m != kNone; m = flat.next_member[static_cast<std::size_t>(m)])
    ++members;
  return members;
}

// Finds the messages that wait for another message in a queue, if one message may have several followers.
// This happens if a list has groups of transfers and the rank does not wait for its other transfers. Each
// queue treats a group as one entry, so several messages may follow several others:
//
//   rank 0, one queue:   SEND_F0   (SEND_F1;RECV_B0)GROUP   RECV_B1
//                        SEND_F0 -> SEND_F1 -> RECV_B1           SEND_F1 and RECV_B0 pass side by side
//                        SEND_F0 -> RECV_B0 -> RECV_B1
//
// In all other programs, each message has at most one follower at each end, and FlatMessage stores this
// follower. Tested by transfer_groups_test.cpp and engines_test.cpp of tests/sim/.

/// Returns true if for_each_follower() must find the order of messages in queues, because `next_at_sender`
/// and `next_at_receiver` are kNone. Three conditions must hold:
///  - Messages of different ranks or directions share queues.
///  - A list has groups of transfers.
///  - Ranks do not wait for transfers outside groups. A rank that waits for a transfer reaches no later entry
///    of its queue in the meantime, so it needs no such order.
inline bool has_followers(const FlatProgram& flat, const ChannelOptions& channels) {
  const bool shares_queues =
      channels.model != ChannelModel::directed && channels.model != ChannelModel::boundary;
  return shares_queues && !channels.waits() && !flat.transfer_group.empty();
}

/// Returns the end of a message, seen from the rank that has `position`. It is the sending end for a SEND,
/// and the receiving end for a RECV.
inline MessageEnd end_at(const FlatProgram& flat, std::int32_t position) {
  const FlatMessage& message = flat.messages[index(flat.message[index(position)])];
  const bool sends = flat.ops[index(position)] == FlatOp::send;
  return {.peer_rank = sends ? message.to_rank : message.from_rank,
          .sends = sends,
          .flow = flow_of(flat.actions[index(position)].kind)};
}

/// Calls `see` with the position of each transfer that waits until the transfer at `position` has left its
/// queue on this rank. There are two kinds of such transfers:
///  - a later transfer of the same group, between the same ranks in the same direction
///  - each transfer in the next entry of the queue, which is a group or a single transfer
/// An eager message does not wait at its receiver, so an entry with only such messages is skipped. `end` is
/// the end of the rank's positions. Requires has_followers().
template <class See>
void for_each_follower(const FlatProgram& flat, ChannelModel model, std::int32_t position, std::int32_t end,
                       const See& see) {
  const MessageEnd here = end_at(flat, position);
  const std::int32_t own_group = flat.transfer_group[index(position)];
  bool found = false;
  std::int32_t entry = kNone;  // the group or the single transfer that is the next entry
  for (std::int32_t p = position + 1; p < end; ++p) {
    const FlatOp op = flat.ops[index(p)];
    if (op != FlatOp::send && op != FlatOp::recv) continue;
    const MessageEnd other = end_at(flat, p);
    if (queue_of(model, other) != queue_of(model, here)) continue;
    const bool waits = op == FlatOp::send || !flat.messages[index(flat.message[index(p)])].eager;
    const std::int32_t group = flat.transfer_group[index(p)];
    if (group != kNone && group == own_group) {
      if (waits && other.peer_rank == here.peer_rank && other.sends == here.sends) see(p);
      continue;
    }
    const std::int32_t of = group == kNone ? p : group;
    if (found && of != entry) return;
    entry = of;
    found = found || waits;
    if (waits) see(p);
  }
}

}  // namespace penstock
