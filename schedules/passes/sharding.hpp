#pragma once
// ZeRO over the ranks that hold a stage together. Its neighbour fsdp.hpp has PyTorch's placement of gathers.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "schedules/ir/gather.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// The state that the ranks of a stage share out, and how often they exchange it.
struct ShardOptions {
  std::int32_t sharding = 0;  ///< stage of ZeRO, 0 to 3
  Gather gather = Gather::microbatch;
};

/// Returns the compute program with its stages sharded (Rajbhandari et al., SC'20, sections 5 and 7). Stages
/// that one rank holds alone stay as they are.
///   1  optimizer state: STEP updates a rank's part, then an UNSHARD gathers the weights, behind the last
///      STEP of the list and by ascending stage, so that the next pass can begin before all of them are there
///   2  and gradients: a rank keeps its part from REDUCE_GRAD on. Each microbatch has a REDUCE_GRAD of its
///   own
///      (exchange_each_microbatch()), or with Gather::step the last one alone
///   3  and weights: UNSHARD before each pass of a microbatch and RESHARD behind it, or with Gather::step
///      before the first use of a stage and behind the last one
/// REDUCE_GRAD is a reduce-scatter in all of them. A sharding of 0 returns the program as it is. Errors: a
/// program that updates more often than once a minibatch or does not reduce its gradients; ranks that use a
/// stage they share in a different number of passes, or stages in different orders.
tl::expected<Program, std::string> shard_stages(const Program& program, const ShardOptions& options);

}  // namespace penstock
