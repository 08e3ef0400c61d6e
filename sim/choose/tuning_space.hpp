#pragma once
// The configurations from which a search chooses. tuning_space() lists the space. runnable_space() finds
// the configurations that can run. space_refusal() checks the memory for their programs. The search and
// the exhaustive check in tests use the same list.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "sim/choose/configuration.hpp"
#include "sim/choose/configuration_figures.hpp"

namespace penstock {

/// Returns all configurations of the space in ascending order. A configuration is in the space if
///
///     tensor x context x data x stages = all devices;
///     on groups of unlike devices, tensor x context x data divides the devices of each group, the order of
///     parallelisms is tp-cp-ep-dp-pp, and the ranks go through the groups in either order;
///     tensor divides the attention heads and the feed-forward width, divides the key heads or is a
///     multiple of them, and fits one NVLink domain;
///     2 context divides the sequence (ring), or context x tensor the heads (all-to-all);
///     expert divides the experts and tensor x context x data;
///     the microbatch is a power of two up to 16, and micro_batch_size x data divides the global batch;
///     stages x virtual stages divides the layers (even), divides the layers + 2 (ends-one-less), or is at
///     most the layers + 2 (balanced), with virtual stages a power of two there unless they are chosen;
///     a listed layout has as many stages;
///     the schedule takes (stages, virtual stages, M), and is not ep-1f1b if expert is 1;
///     sharding is 0, or another where weights have copies;
///     offload is 0, or another where the schedule takes it and the scenario states cluster.host;
///     recompute is not selective if none is allowed, because fused attention makes them equal;
///
/// and the request's choices allow it. If the request has a launcher, the launcher must be able to run the
/// configuration as it is predicted (launchers.hpp). Configurations with the same meaning are listed once. A
/// pipeline of one stage is the same with any schedule but ep-1f1b and any layer split, and an interleaved
/// schedule with v = 1 equals another schedule.
///
/// Returns an error if there is no model on named devices. Also returns an error if a schedule is unknown or
/// does not train synchronously with one copy of the weights, or if the space is empty. If the space is
/// empty, the message names the rule that excluded the last configurations, or the reason why the launcher
/// cannot run most of them.
tl::expected<std::vector<Configuration>, std::string> tuning_space(const TuneRequest& request);

// The configurations of a space that can run, and those that cannot. They are found before the search, so
// that a schedule that cannot run does not end it.

struct RunnableSpace {
  std::vector<Configuration> configurations;  ///< configurations in the order of the space
  std::vector<LeftOut> left_out;  ///< entries in the order of their first configurations in the space
};

/// Returns the configurations of `space` that can run. Leaves out a configuration if its schedule refuses
/// an option of the scenario, or if its program hangs with `channels`. `channels` must be those of the
/// scenario. Returns nothing if `stopped` returns true before the end.
std::optional<RunnableSpace> runnable_space(const std::vector<Configuration>& space,
                                            const ChannelOptions& channels,
                                            const std::shared_ptr<ProgramLibrary>& programs,
                                            const std::function<bool()>& stopped);

/// Returns an error message if the largest program of the space is too large, and nothing otherwise. A
/// program is too large if it needs more than `within_reach` bytes, or has more actions than an engine can
/// number. The message names the program's stages and microbatches.
std::optional<std::string> space_refusal(std::span<const Configuration> space, Bytes within_reach);
/// Returns the same error message as the other space_refusal(), with the free memory of this machine as the
/// limit.
std::optional<std::string> space_refusal(std::span<const Configuration> space);

}  // namespace penstock
