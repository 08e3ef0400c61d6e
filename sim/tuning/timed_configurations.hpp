#pragma once
// Times and peaks of configurations, by the tape of their program.

#include <optional>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "schedules/ir/action.hpp"
#include "sim/tuning/configuration_prices.hpp"
#include "sim/tuning/program_library.hpp"

namespace penstock {

/// The steps of configurations of one program, as simulate() says them; several at once where there are.
std::vector<Ns> step_times(const TunedProgram& program, std::span<const PricedConfiguration> priced);

/// The peak of its fullest rank, as simulate() says it.
Bytes peak_bytes(const TunedProgram& program, const PricedConfiguration& priced);

}  // namespace penstock
