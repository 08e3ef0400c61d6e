#pragma once
// Pass: posts each RECV of a lowered program as late as it can be.

#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// The program with its RECVs right before the compute actions that need them. A RECV whose deferral takes
/// part in a hang under `channels` stays where it is, so that the result hangs only where `lowered` does. In
/// a queue that SENDs and RECVs share (`rank`, `pair`, `direction`), a late RECV does not keep SENDs waiting
/// that are ready. Requires a validated, lowered program. At most one channel check a RECV.
Program defer_receives(const Program& lowered, const ChannelOptions& channels, const CostTable& costs);

}  // namespace penstock
