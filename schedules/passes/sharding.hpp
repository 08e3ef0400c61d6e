#pragma once
// Inserts the gathers and reductions of ZeRO for stages that several ranks share. pytorch_passes.hpp is
// used instead if they must be placed exactly as PyTorch places them.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

/// The ZeRO stage, and the frequency at which the ranks of a stage exchange their shards.
struct ShardOptions {
  /// The ZeRO stage, 0 to 3.
  std::int32_t sharding = 0;
  Gather gather = Gather::microbatch;
};

/// Returns the compute program with its stages sharded (Rajbhandari et al., SC'20, sections 5 and 7). Stages
/// that only one rank holds stay unchanged.
///   1  optimizer state: STEP updates the rank's part of the weights. After the last STEP of the list, an
///      UNSHARD gathers the weights of each stage. The UNSHARDs are in ascending order of stages, so that the
///      next iteration can begin before all weights have arrived.
///   2  also gradients: a rank stores only its part after REDUCE_GRAD. Each microbatch has a REDUCE_GRAD
///      (exchange_each_microbatch()). With Gather::step, only the last microbatch has one.
///   3  also weights: an UNSHARD comes before each pass of a microbatch, and a RESHARD after it. With
///      Gather::step, a stage is gathered before its first use and dropped after its last use.
/// REDUCE_GRAD is a reduce-scatter in all three cases. With sharding 0, the program is returned unchanged.
/// Fails if the program updates more than once in a minibatch or does not reduce its gradients. Also fails if
/// ranks run a different number of passes of a shared stage, or use shared stages in different orders.
tl::expected<Program, std::string> shard_stages(const Program& program, const ShardOptions& options);

}  // namespace penstock
