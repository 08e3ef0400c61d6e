#pragma once
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

#include <cstdint>

#include "schedules/check/flat_program.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"

namespace penstock {

/// Returns true if for_each_follower() must find the order of messages in queues, because `next_at_sender`
/// and `next_at_receiver` are kNone. Three conditions must hold. Messages of different ranks or directions
/// share queues. A list has groups of transfers. Ranks do not wait for their other transfers. A rank that
/// waits for a transfer reaches no later entry of its queue meanwhile, so it needs no such order.
inline bool has_followers(const FlatProgram& flat, const ChannelOptions& channels) {
  const bool shares_queues =
      channels.model != ChannelModel::directed && channels.model != ChannelModel::boundary;
  return shares_queues && !channels.waits() && !flat.transfer_group.empty();
}

/// Returns the end of a message (sending or receiving) to which `position` belongs.
inline MessageEnd end_at(const FlatProgram& flat, std::int32_t position) {
  const FlatMessage& message = flat.messages[index(flat.message[index(position)])];
  const bool sends = flat.ops[index(position)] == FlatOp::send;
  return {.peer_rank = sends ? message.to_rank : message.from_rank,
          .sends = sends,
          .flow = flow_of(flat.actions[index(position)].kind)};
}

/// Calls `see` with the position of each transfer that waits until the transfer at `position` has left its
/// queue on this rank. Such a transfer is of one of two kinds. It comes later in the same group and goes
/// between the same ranks in the same direction. Or it is in the next entry of the queue, which is a group or
/// a single transfer. An eager message does not wait at its receiver, so an entry with only such messages is
/// skipped. `end` is the end of the rank's positions. Requires has_followers().
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
