#pragma once
// Orders the exchanges of shared stages, so that ranks do not wait for each other forever.

#include <string>
#include <tl/expected.hpp>

#include "schedules/ir/program.hpp"

namespace penstock {

/// Returns a sharded program without the UNSHARD and RESHARD of unshared stages, because the only rank of
/// such a stage has all its weights. If ranks use shared stages in different orders, consecutive UNSHARDs are
/// sorted by stage. Fails if a rank gathers a stage more or less often than the other ranks. Also fails if
/// two ranks still have a different order.
tl::expected<Program, std::string> with_exchanges_of_shared_stages(Program sharded);

}  // namespace penstock
