#pragma once
// What a schedule is told that looks for its order by what stages and messages take.

#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/prepare/program_prices.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// How long an activation takes from each stage to the next one. Error: times that are too long for a search.
tl::expected<std::vector<Ns>, std::string> transfer_times(const Program& placed, const ProgramPrices& prices);

}  // namespace penstock
