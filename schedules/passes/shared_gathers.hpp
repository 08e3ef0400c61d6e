#pragma once
// The exchanges of shared stages, in an order in which no rank waits forever for another.

#include <string>
#include <tl/expected.hpp>

#include "schedules/ir/program.hpp"

namespace penstock {

/// Returns a sharded program without the UNSHARD and RESHARD of stages that only one rank holds, whose
/// weights are whole there. If ranks use shared stages in different orders, consecutive UNSHARDs are sorted
/// by stage. Errors: a rank gathers a stage more or less often than the others, or the order of two exchanges
/// still differs between ranks.
tl::expected<Program, std::string> with_exchanges_of_shared_stages(Program sharded);

}  // namespace penstock
