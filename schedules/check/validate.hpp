#pragma once
// Is a program one that makes sense? What lower.hpp, channel_check.hpp, sim/ and backend/ take for
// granted is proven here; that no rank waits for ever is channel_check.hpp's part.

#include <string>
#include <tl/expected.hpp>

#include "schedules/ir/program.hpp"

namespace penstock {

/// Checks a compute program or a lowered one:
///  - every stage has ranks of its own and a route among them; the stage edges are sorted and free of cycles;
///  - every action stands on the rank that has its stage and microbatch, and groups hold compute actions;
///  - each stage runs every microbatch's F once, then its R if any, then its B once, or its I and then its W;
///  - what a stage reads from a stage on the same rank comes before it;
///  - weight versions exist when they are used: version v needs v STEPs of the stage before it in the list;
///  - with `update minibatch` a stage's STEP comes once, after all its other work;
///  - all replicas of a stage have as many UNSHARDs and REDUCE_GRADs;
///  - between two STEPs a stage reduces once, after its last B or W and before its RESHARD; where it is
///  sharded
///    (2, 3) it may reduce earlier as well, and parts of sums add up. Of the stages
///    that one rank holds alone all reduce, or none; so it is with those that several hold, and under
///    `sharding` all of these do;
///  - a stage runs with gathered weights only: not before its UNSHARD, after its RESHARD, or after a STEP
///    that updated a part of them. Where one stage gathers, the others that are held alike do so, too;
///  - if there are messages at all: every stage edge between two ranks has each microbatch's SEND and RECV of
///    the activation and of the gradient, after its producer and before its consumer.
/// Error: a sentence with the rank, the position in its list, the action and the rule that it breaks; below
/// it the steps around that place (schedule_grid.hpp) where there is one.
tl::expected<void, std::string> validate(const Program& program);

}  // namespace penstock
