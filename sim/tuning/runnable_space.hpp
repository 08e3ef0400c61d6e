#pragma once
// Which configurations of a space can run at all: asked before the first of them is timed, so that one
// schedule that cannot run costs nobody the answer for the others.

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
  std::vector<LeftOut> left_out;              ///< in the order in which they first appear there
};

/// Without configurations whose schedule refuses an option of the scenario, and those whose program hangs
/// under `channels`, which are the scenario's. Nothing where `stopped`, if there is one, becomes true before.
std::optional<RunnableSpace> runnable_space(const std::vector<Configuration>& space,
                                            const ChannelOptions& channels,
                                            const std::shared_ptr<ProgramLibrary>& programs,
                                            const std::function<bool()>& stopped);

}  // namespace penstock
