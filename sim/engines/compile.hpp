#pragma once
// From a flat program to the tape that times it (tape.hpp).

#include <optional>

#include "schedules/check/flat_program.hpp"
#include "schedules/ir/channel.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {

/// Follows `flat`, laid out for `channels`, and writes what happens as a tape: nothing where the program
/// hangs (find_hang() says why). Costs matter only as far as they decide which messages are eager.
/// O(positions). Microbatches of different groups get classes of their own.
std::optional<Tape> compile(const FlatProgram& flat, const ChannelOptions& channels,
                            const MicrobatchGroups& groups = {});

}  // namespace penstock
