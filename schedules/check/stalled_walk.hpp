#pragma once
// Why a walk of a flat program stalls. channel_check.hpp lays a program out, asks here, and looks for
// messages that cross; a caller that has the flat program or the stalled walk already asks here.

#include <optional>

#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

/// Finds the hang of `flat`, which is laid out for `channels`, launch order included. Returns nothing if the
/// walk comes to its end.
std::optional<Hang> find_stall(const FlatProgram& flat, const ChannelOptions& channels);

/// A shortest cycle of those that wait for each other where the walk of `flat` under `channels` stalled.
/// Requires a walk that has not finished.
Hang hang_of(const FlatProgram& flat, const WalkState& stalled, const ChannelOptions& channels);

}  // namespace penstock
