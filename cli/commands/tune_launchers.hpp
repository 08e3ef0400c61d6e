#pragma once
// A configuration as the command line of a framework that trains.

#include <string>
#include <tl/expected.hpp>

#include "sim/tuning/configuration.hpp"

namespace penstock {

/// Megatron-LM's arguments for what was chosen; model and data are the user's own. Error: what it cannot do.
tl::expected<std::string, std::string> megatron_arguments(const TuneRequest& request,
                                                          const Configuration& configuration);
/// The same of torchtitan. Schedules that it has no name for are named by a file, `penstock convert` makes
/// it.
tl::expected<std::string, std::string> torchtitan_arguments(const TuneRequest& request,
                                                            const Configuration& configuration);

}  // namespace penstock
