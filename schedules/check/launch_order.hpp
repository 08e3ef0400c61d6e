#pragma once
// Hangs that occur if a rank's communication kernels start in the order in which they were launched, as with
// NCCL_LAUNCH_ORDER_IMPLICIT=1. A program that is free of hangs on its channels may still have them.

#include <optional>

#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

/// Returns the hang of a program under launch order, or nothing if it ends. Also returns nothing without
/// channels.launch_order and with blocking channels. A rank launches a RECV or collective at its position. It
/// launches a SEND after its producer and after everything before it in its queue.
///
/// A launch starts when three conditions hold. All earlier launches of its rank have started. The ones before
/// it in its queue there (for collectives: of its group) have ended. The data that it sends is produced. A
/// message ends when both ends, or all members, have started. Requires a program laid out for `channels` that
/// does not hang on them. Capacity and eager messages are ignored.
std::optional<Hang> find_launch_hang(const FlatProgram& flat, const ChannelOptions& channels);

}  // namespace penstock
