#pragma once
// The space of configurations: one list, which both the search and the exhaustive check in tests use.

#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "sim/tuning/configuration.hpp"

namespace penstock {

/// Returns all configurations of the space, ascending. A configuration is in the space if
///
///     tensor x context x data x stages = all devices;
///     tensor divides the attention heads and the feed-forward width, divides the key heads or is a
///     multiple of them, and fits one NVLink domain;
///     2 context divides the sequence (ring), or context x tensor the heads (all-to-all);
///     expert divides the experts and tensor x context x data;
///     the microbatch is a power of two up to 16, and micro_batch_size x data divides the global batch;
///     stages x virtual stages divides the layers (even), divides the layers + 2 (ends-one-less), or is at
///     most the layers + 2 (balanced), with virtual stages a power of two there unless they are chosen;
///     a listed layout has as many stages;
///     the schedule takes (stages, virtual stages, M);
///     sharding is 0, or another where weights have copies;
///
/// and the request's choices allow it. If the request has a launcher, the launcher must be able to run it as
/// it is priced (launchers.hpp). Configurations that mean the same are listed once: a pipeline of one stage
/// under any schedule and layout, or v = 1 under an interleaved schedule.
///
/// Errors: there is no model on named devices; a schedule is unknown, or does not train synchronously with
/// one copy of the weights a pipeline; the space is empty. The last message names the rule that ended all
/// configurations, or what the launcher lacks for most of them.
tl::expected<std::vector<Configuration>, std::string> tuning_space(const TuneRequest& request);

}  // namespace penstock
