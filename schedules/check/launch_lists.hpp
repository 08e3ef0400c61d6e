#pragma once
// The order in which a rank launches its communication, and the events for which each launch waits. It is
// used if operations start in the order of their launches (NCCL_LAUNCH_ORDER_IMPLICIT=1).

#include <cstdint>
#include <vector>

#include "schedules/check/flat_program.hpp"
#include "schedules/ir/channel.hpp"

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
  /// launches. Such events are: the producer of a SEND ends; the rank reaches a collective; earlier
  /// transfers of the queue, or the rank's previous collective, have left; capacity becomes free; the host
  /// launches it.
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

}  // namespace penstock
