#pragma once
// Finds the reason why a walk of a flat program stalls. Callers use this file if they already have the flat
// program or the stalled walk. channel_check.hpp lays the program out itself and also finds crossed messages.

#include <optional>

#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

/// Finds the hang of `flat`, also under launch order. Requires that `flat` is laid out for `channels`.
/// Returns nothing if the walk reaches its end.
std::optional<Hang> find_stall(const FlatProgram& flat, const ChannelOptions& channels);

/// Returns a shortest cycle among the waits that remain after the walk of `flat` has stalled. Requires a walk
/// that has not finished.
Hang hang_of(const FlatProgram& flat, const WalkState& stalled, const ChannelOptions& channels);

}  // namespace penstock
