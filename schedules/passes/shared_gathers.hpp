#pragma once
// The exchanges of stages that ranks share, in an order in which no rank waits for another for ever.

#include <string>
#include <tl/expected.hpp>

#include "schedules/ir/program.hpp"

namespace penstock {

/// Returns a sharded program without the UNSHARD and RESHARD of stages that one rank holds, whose weights are
/// whole there. Neighbouring UNSHARDs are sorted by stage where ranks use the stages that they share in
/// different orders. Errors: ranks of a stage that gather it more or less often than others, or that gather
/// or reduce two stages in another order than others all the same.
tl::expected<Program, std::string> with_exchanges_of_shared_stages(Program sharded);

}  // namespace penstock
