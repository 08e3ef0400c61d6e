#pragma once
// Times and peaks of configurations, computed with the tape of their program.

#include <optional>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "schedules/ir/action.hpp"
#include "sim/tuning/configuration_prices.hpp"
#include "sim/tuning/program_library.hpp"

namespace penstock {

/// Returns the step times of configurations of one program. They equal the times of simulate(). Several
/// configurations are timed at once.
std::vector<Ns> step_times(const TunedProgram& tuned, std::span<const PricedConfiguration> priced);

/// Returns the peaks of the fullest ranks. They equal the peaks of simulate().
std::vector<Bytes> peak_bytes(const TunedProgram& tuned, std::span<const PricedConfiguration> priced);

}  // namespace penstock
