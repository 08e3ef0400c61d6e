#pragma once
// A pass that posts each RECV of a lowered program as late as possible.

#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// Returns the program with its RECVs directly before the compute actions that need them. A RECV whose
/// deferral contributes to a hang under `channels` stays at its position, so that the result hangs only if
/// `lowered` does. If SENDs and RECVs share a queue (`rank`, `pair`, `direction`), a late RECV does not delay
/// SENDs that are ready. Requires a validated, lowered program. Makes at most one channel check a RECV.
Program defer_receives(const Program& lowered, const ChannelOptions& channels, const CostTable& costs);

}  // namespace penstock
