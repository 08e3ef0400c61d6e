#pragma once
// ZeRO over the ranks that share a stage. fsdp.hpp has PyTorch's placement of gathers.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "schedules/ir/gather.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// The state that the ranks of a stage divide among them, and how often they exchange it.
struct ShardOptions {
  /// The stage of ZeRO, 0 to 3.
  std::int32_t sharding = 0;
  Gather gather = Gather::microbatch;
};

/// Returns the compute program with its stages sharded (Rajbhandari et al., SC'20, sections 5 and 7). Stages
/// that only one rank holds stay unchanged.
///   1  optimizer state: STEP updates a rank's part. After the last STEP of the list an UNSHARD gathers the
///      weights of each stage, by ascending stage, so that the next pass can begin before all have arrived.
///   2  also gradients: a rank retains its part from REDUCE_GRAD on. Each microbatch has its own REDUCE_GRAD
///      (exchange_each_microbatch()), but with Gather::step only the last one.
///   3  also weights: UNSHARD before each pass of a microbatch and RESHARD after it, but with Gather::step
///      only before the first use of a stage and after the last one.
/// REDUCE_GRAD is a reduce-scatter in all three. A sharding of 0 returns the program unchanged. Errors: a
/// program that updates more often than once a minibatch or does not reduce its gradients; ranks that use a
/// shared stage in different numbers of passes, or use shared stages in different orders.
tl::expected<Program, std::string> shard_stages(const Program& program, const ShardOptions& options);

}  // namespace penstock
