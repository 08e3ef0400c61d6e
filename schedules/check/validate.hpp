#pragma once
// Checks whether a program is valid. lower.hpp, channel_check.hpp, sim/ and backend/ require valid programs.
// channel_check.hpp checks whether a valid program can hang.

#include <string>
#include <tl/expected.hpp>

#include "schedules/ir/program.hpp"

namespace penstock {

/// Checks a compute program or a lowered one. These are the rules:
/// - each stage has at least one rank and a route among its ranks; the stage edges are sorted and have no
/// cycle;
/// - each action is on the rank that holds its stage and microbatch, and overlapped groups hold only compute
/// actions;
///  - each stage runs every microbatch's F once, then its R if any, then its B once, or its I and then its W;
/// - if a stage reads from another stage on the same rank, the action that writes comes first;
/// - a weight version exists when it is used: version v needs v earlier STEPs of the stage in the list;
/// - with `update minibatch`, a stage has one STEP, after all its other actions;
///  - all replicas of a stage have equally many UNSHARDs and REDUCE_GRADs;
///  - between two STEPs a stage reduces once, after its last B or W and before its RESHARD;
///    with sharding 2 and 3 it may also reduce earlier, because partial sums add up;
///  - either all stages that a rank holds alone reduce, or none; the same holds for stages that several ranks
///    hold, which must all reduce if the program is sharded;
///  - a stage runs only with gathered weights: after its UNSHARD, but not after its RESHARD or after a STEP
///    that updated a part of them; if one stage gathers, all stages that are held alike must gather;
///  - if there are messages at all: every stage edge between two ranks has each microbatch's SEND and RECV of
///    the activation and of the gradient, after its producer and before its consumer.
/// On failure, returns a sentence with the rank, the position in its list, the action and the rule. If there
/// is such a position, the text also shows the steps around it (schedule_grid.hpp).
tl::expected<void, std::string> validate(const Program& program);

}  // namespace penstock
