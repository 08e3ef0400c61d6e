#pragma once
// Makes tapes (tape.hpp). compile() makes a tape from a flat program, whose lists contain SENDs and RECVs.
// compile_turns() makes a tape from lists of compute actions only, and adds the messages itself.
// evaluate.hpp computes the times of a tape.

#include <cstdint>
#include <optional>
#include <vector>

#include "schedules/check/flat_program.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {

/// Compiles a flat program into a tape with the same actions and messages. flatten() must have made `flat`
/// for `channels`. Returns nothing if the program hangs; find_hang() then gives the reason. The tape
/// depends on costs only because they decide which messages are eager. Microbatches of different groups get
/// different duration classes. Takes O(positions).
std::optional<Tape> compile(const FlatProgram& flat, const ChannelOptions& channels,
                            const MicrobatchGroups& groups = {});

// Compiles the lists of a compute program directly into a tape. Placement rounds
// (schedules/passes/take_turns.hpp) determine the order of actions and messages. tests/sim/turn_run_test.cpp
// compares the result with that of compile().

/// The tape of a program of compute actions. Its origins number the actions of the program's lists, rank by
/// rank. Messages are numbered in the order in which they are placed.
struct TurnTape {
  Tape tape;
  std::vector<std::int32_t> units;  ///< for each message, the microbatch (or slice) that it carries
  bool has_collectives = false;     ///< true if some messages are collectives, with kNoMicrobatch in `units`
};

/// Returns the tape that lower(), flatten() and compile() would make, without storing lists. Returns
/// nothing in these cases: channels block, have a capacity or an eager size; passes repeat; members must
/// join a collective early; or the program deadlocks. The caller must then use compile(). Requires a
/// program that is valid (validate()) and not lowered. Takes O(actions).
std::optional<TurnTape> compile_turns(const Program& program, const ChannelOptions& channels,
                                      const MicrobatchGroups& groups = {});

}  // namespace penstock
