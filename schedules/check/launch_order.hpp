#pragma once
// Finds hangs that occur if a rank's communication kernels start in the order of their launches, as with
// NCCL_LAUNCH_ORDER_IMPLICIT=1. Such a hang is possible even if the program cannot hang on its channels.

#include <optional>

#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

/// Returns the hang of a program under launch order, or nothing if the program ends. Also returns nothing
/// without channels.launch_order and with blocking channels. A rank launches a RECV or collective at its
/// position. It launches a SEND after its producer and after all earlier transfers in its queue.
///
/// A launch starts when three conditions hold. All earlier launches of its rank have started. All earlier
/// transfers of its queue, or collectives of its group, have ended. The data that it sends is ready. A
/// message ends when both ends, or all members, have started. Requires a program that is laid out for
/// `channels` and does not hang on them. Capacity and eager messages are ignored.
std::optional<Hang> find_launch_hang(const FlatProgram& flat, const ChannelOptions& channels);

}  // namespace penstock
