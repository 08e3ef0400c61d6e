#pragma once
// Checks whether a program makes sense. lower.hpp, channel_check.hpp, sim/ and backend/ rely on it. Whether
// ranks wait forever is checked by channel_check.hpp.

#include <string>
#include <tl/expected.hpp>

#include "schedules/ir/program.hpp"

namespace penstock {

/// Checks a compute program or a lowered one:
///  - every stage has ranks of its own and a route among them; the stage edges are sorted and free of cycles;
///  - every action is on the rank that has its stage and microbatch, and groups hold compute actions;
///  - each stage runs every microbatch's F once, then its R if any, then its B once, or its I and then its W;
///  - what a stage reads from a stage on the same rank comes before it;
///  - weight versions exist when they are used: version v needs v STEPs of the stage before it in the list;
///  - with `update minibatch` a stage's STEP comes once, after all its other work;
///  - all replicas of a stage have equally many UNSHARDs and REDUCE_GRADs;
///  - between two STEPs a stage reduces once, after its last B or W and before its RESHARD;
///    with sharding 2 and 3 it may also reduce earlier, because partial sums add up;
///  - either all stages that a rank holds alone reduce, or none; the same holds for stages that several ranks
///    hold, which must all reduce if the program is sharded;
///  - a stage runs only with gathered weights: after its UNSHARD, but not after its RESHARD or after a STEP
///    that updated a part of them; if one stage gathers, all stages that are held alike must gather;
///  - if there are messages at all: every stage edge between two ranks has each microbatch's SEND and RECV of
///    the activation and of the gradient, after its producer and before its consumer.
/// Error: a sentence with the rank, the position in its list, the action and the broken rule. If there is
/// such a position, the steps around it follow (schedule_grid.hpp).
tl::expected<void, std::string> validate(const Program& program);

}  // namespace penstock
