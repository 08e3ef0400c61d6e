#pragma once
// The reason why a walk of a flat program stalls. For callers that already have the flat program or the
// stalled walk; channel_check.hpp lays the program out itself and also finds messages that cross.

#include <optional>

#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

/// Finds the hang of `flat`, which is laid out for `channels`, launch order included. Returns nothing if the
/// walk reaches its end.
std::optional<Hang> find_stall(const FlatProgram& flat, const ChannelOptions& channels);

/// Returns a shortest cycle of the waits that remain where the walk of `flat` under `channels` stalled.
/// Requires a walk that has not finished.
Hang hang_of(const FlatProgram& flat, const WalkState& stalled, const ChannelOptions& channels);

}  // namespace penstock
