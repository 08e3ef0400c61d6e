#pragma once
// Whether messages ever wait for their queues: where not, passes over a tape need not follow these.

#include <optional>
#include <span>
#include <vector>

#include "schedules/ir/action.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {

/// What Tape::senders has for the tape, whose code and links are complete. O(instructions).
std::optional<std::vector<std::uint32_t>> queue_senders(const Tape& tape);

/// What passes over the tape have to follow, the first one and any that goes on from it. `durations` by
/// class; without any, instructions may take any time. O(classes).
QueuesFollowed queues_followed(const Tape& tape, std::span<const PricedLink> links,
                               std::span<const Ns> durations);

}  // namespace penstock
