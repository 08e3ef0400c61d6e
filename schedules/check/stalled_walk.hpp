#pragma once
// Why a walk of a flat program stalled. channel_check.hpp walks and asks in one; whoever has walked already
// (the critical_path engine of sim/) asks here.

#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

/// A shortest cycle of those that wait for each other where the walk of `flat` under `channels` stalled.
/// Requires a walk that has not finished.
Hang hang_of(const FlatProgram& flat, const WalkState& stalled, const ChannelOptions& channels);

}  // namespace penstock
