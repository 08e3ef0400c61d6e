#pragma once
// Compiles a flat program into the tape that times it (tape.hpp).

#include <optional>

#include "schedules/check/flat_program.hpp"
#include "schedules/ir/channel.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {

/// Returns a tape with the actions and messages of `flat`, which must be laid out for `channels`. Returns
/// nothing if the program hangs; find_hang() then gives the reason. Costs matter only because they decide
/// which messages are eager. Microbatches of different groups have different classes. Takes O(positions).
std::optional<Tape> compile(const FlatProgram& flat, const ChannelOptions& channels,
                            const MicrobatchGroups& groups = {});

}  // namespace penstock
