#pragma once
// From the lists of a compute program straight to the tape that times it (tape.hpp): ranks take turns
// (schedules/passes/take_turns.hpp), and what they place is an instruction instead of a SEND and a RECV in
// lists. Held against compile.hpp by tests/sim/turn_tape_test.cpp.

#include <cstdint>
#include <optional>
#include <vector>

#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {

/// The tape of a compute program. Positions of its origins count the program's lists rank by rank, messages
/// are numbered in the order in which they are placed.
struct TurnTape {
  Tape tape;
  std::vector<std::int32_t> units;  ///< by message: the microbatch (slice) it is of
  bool has_collectives = false;     ///< which are messages of kNoMicrobatch
};

/// What lower(), flatten() and compile() come to, without lists in between. Nothing where these have to say:
/// for what does not follow from the order of turns alone (channels that block, have a capacity or an eager
/// size; repeated passes; collectives that some members have to join early), and where ranks wait for each
/// other. Requires validate(program), which is not lowered. O(actions).
std::optional<TurnTape> compile_turns(const Program& program, const ChannelOptions& channels,
                                      const MicrobatchGroups& groups = {});

}  // namespace penstock
