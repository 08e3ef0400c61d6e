#pragma once
// Whether a program hangs where a rank's communication kernels start in the order in which they were
// launched, as NCCL has it with NCCL_LAUNCH_ORDER_IMPLICIT=1. Channels that are free of hangs do not say so.

#include <optional>

#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

/// Nothing without channels.launch_order, and with blocking channels. A rank launches its list ahead: a RECV
/// or collective where it stands, a SEND behind its producer and behind all that is before it in its queue. A
/// launch starts when all launches before it on its rank have started, those before it in its queue there (of
/// collectives: of its group) have ended, and what it sends has been made; it ends when both ends, or all
/// members, have started. Requires a program laid out for `channels` that does not hang on them; capacity and
/// eager messages are left out.
std::optional<Hang> find_launch_hang(const FlatProgram& flat, const ChannelOptions& channels);

}  // namespace penstock
