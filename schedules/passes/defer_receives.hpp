#pragma once
// A pass that posts each RECV of a lowered program as late as possible.

#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// Returns the program with each RECV directly before the compute action that needs it. A RECV stays at its
/// position if moving it would contribute to a hang under `channels`. The result therefore hangs only if
/// `lowered` does. If SENDs and RECVs share a queue (`rank`, `pair`, `direction`), a late RECV does not delay
/// SENDs that are ready. Requires a validated, lowered program. Makes at most one channel check for each
/// RECV.
Program defer_receives(const Program& lowered, const ChannelOptions& channels, const CostTable& costs);

}  // namespace penstock
