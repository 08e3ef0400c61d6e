#pragma once
// The gathers of weights that ranks share, in an order in which none waits for another for ever.

#include <string>
#include <tl/expected.hpp>

#include "schedules/ir/program.hpp"

namespace penstock {

/// `gathered` has an UNSHARD and a RESHARD around what uses a stage. Those of stages on one rank are taken
/// out, since weights are whole there, and neighbours are put in one order. Errors: ranks of a stage that
/// gather it more or less often than others, or two stages in another order than others.
tl::expected<Program, std::string> with_gathers_of_shared_stages(Program gathered);

}  // namespace penstock
