#pragma once
// The configurations of a space that can run. They are found before any is timed, so that a schedule that
// cannot run does not end the search of the others.

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "schedules/ir/channel.hpp"
#include "sim/tuning/configuration.hpp"
#include "sim/tuning/left_out.hpp"
#include "sim/tuning/program_library.hpp"

namespace penstock {

struct RunnableSpace {
  std::vector<Configuration> configurations;  ///< in the order of the space
  std::vector<LeftOut> left_out;              ///< in the order of their first configurations in the space
};

/// Removes each configuration if its schedule refuses an option of the scenario, or if its program hangs
/// under `channels`. `channels` must be the scenario's. Returns nothing if `stopped` is given and becomes
/// true before the end.
std::optional<RunnableSpace> runnable_space(const std::vector<Configuration>& space,
                                            const ChannelOptions& channels,
                                            const std::shared_ptr<ProgramLibrary>& programs,
                                            const std::function<bool()>& stopped);

}  // namespace penstock
