#pragma once
// ZeRO over the ranks that hold a stage together. Its neighbour fsdp.hpp has PyTorch's placement of gathers.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "schedules/ir/program.hpp"

namespace penstock {

/// The compute program with its stages sharded (Rajbhandari et al., SC'20, sections 5 and 7). Stages that one
/// rank holds alone stay as they are.
///   1  optimizer state: STEP updates a rank's part, then an UNSHARD gathers the weights, behind the last
///      STEP of the list and by ascending stage, so that the next pass can begin before all of them are there
///   2  and gradients: a rank keeps its part from REDUCE_GRAD on
///   3  and weights: UNSHARD before a stage is used and RESHARD behind, at most three stages at a time
///      (insert_unshard_reshard())
/// REDUCE_GRAD is a reduce-scatter in all of them. Requires 0 <= sharding <= 3; 0 returns the program as it
/// is. Errors: a program that updates more often than once a minibatch or does not reduce its gradients;
/// under 3, ranks that use a stage they share in a different number of turns.
tl::expected<Program, std::string> shard_stages(const Program& program, std::int32_t sharding);

}  // namespace penstock
