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
std::vector<Ns> step_times(const TunedProgram& tuned, std::span<const PricedConfiguration> priced);

/// The peaks of their fullest ranks, as simulate() says them.
std::vector<Bytes> peak_bytes(const TunedProgram& tuned, std::span<const PricedConfiguration> priced);

}  // namespace penstock
