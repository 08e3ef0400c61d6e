#pragma once
// The two ways to make a tape (tape.hpp): compile() makes it from a flat program, whose messages are
// lists. compile_turns() makes it from compute lists alone, while their messages are placed. evaluate.hpp
// times tapes.

#include <cstdint>
#include <optional>
#include <vector>

#include "schedules/check/flat_program.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {

/// Returns a tape with the actions and messages of `flat`, which must be laid out for `channels`. Returns
/// nothing if the program hangs; find_hang() then gives the reason. Costs matter only because they decide
/// which messages are eager. Microbatches of different groups have different classes. Takes O(positions).
std::optional<Tape> compile(const FlatProgram& flat, const ChannelOptions& channels,
                            const MicrobatchGroups& groups = {});

// Compiles the lists of a compute program directly into the tape that times it (tape.hpp). Placement rounds
// (schedules/passes/take_turns.hpp) give the order, and each placed message becomes an instruction instead of
// a SEND and a RECV. tests/sim/turn_run_test.cpp compares the result with compile.hpp.

/// The tape of a compute program. The positions in its origins count the actions of the program's lists, rank
/// by rank. Messages are numbered in the order in which they are placed.
struct TurnTape {
  Tape tape;
  std::vector<std::int32_t> units;  ///< for each message the microbatch (or slice) that it carries
  bool has_collectives = false;     ///< a collective is a message of kNoMicrobatch
};

/// Returns the tape that lower(), flatten() and compile() would make, without storing lists. Returns nothing
/// if channels block or have a capacity or an eager size, if passes repeat, or if members must join a
/// collective early. It also returns nothing if ranks wait for each other; the walk over lists must decide
/// these cases. Requires a program that is valid (validate()) and not lowered. Takes O(actions).
std::optional<TurnTape> compile_turns(const Program& program, const ChannelOptions& channels,
                                      const MicrobatchGroups& groups = {});

}  // namespace penstock
