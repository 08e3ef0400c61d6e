#pragma once
// Checks whether a program is valid. lower.hpp, channel_check.hpp, sim/ and backend/ require valid programs.
// channel_check.hpp checks whether a valid program can hang.

#include <string>
#include <tl/expected.hpp>

#include "schedules/ir/program.hpp"

namespace penstock {

/// Checks a compute program or a lowered one. These are the rules:
///  - Each stage has at least one rank and a route among its ranks. The stage edges are sorted and acyclic.
///  - Each action is on the rank that holds its stage and microbatch. Overlapped groups hold only compute
///    actions.
///  - Each stage runs every microbatch's F once, then its R if any, then its B once, or its I and then its W.
///  - If a stage reads from another stage on the same rank, the action that writes comes first.
///  - A weight version exists when an action uses it: version v needs v earlier STEPs of the stage in the
///    list.
///  - With `update minibatch`, a stage has one STEP, after all its other actions.
///  - All replicas of a stage have equally many UNSHARDs and REDUCE_GRADs.
///  - Between two STEPs a stage reduces once, after its last B or W and before its RESHARD. With sharding
///    2 and 3 it may also reduce earlier, because partial sums add up.
///  - Either all stages with a single rank reduce, or none of them. The same holds for stages with several
///    ranks. If the program is sharded, all stages with several ranks must reduce.
///  - A stage runs only with gathered weights: after its UNSHARD, and not after its RESHARD. It must not run
///    after a STEP that updated a part of the weights. If one stage gathers, all stages of its kind (with one
///    or with several ranks) must gather.
///  - If there are messages at all, each microbatch has a SEND and a RECV of its activation and of its
///    gradient on every stage edge between two ranks. They come after the producer and before the consumer.
/// On failure, returns a sentence with the rank, the position in its list, the action and the rule. If the
/// fault has a position, the text also shows the steps around this position (program_text.hpp).
tl::expected<void, std::string> validate(const Program& program);

}  // namespace penstock
