#pragma once
// Exchanges of sharded stages around every microbatch. fsdp.hpp has PyTorch's placement instead, which
// retains gathered weights for the next microbatch.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "schedules/ir/program.hpp"

namespace penstock {

/// Returns the compute program with a REDUCE_GRAD after each backward pass of a shared stage. Under sharding
/// 3 each forward and backward pass also has an UNSHARD before it and a RESHARD after it. While a pass
/// computes, the weights of the next passes are gathered, for at most `kGatheredAhead` passes including the
/// current one. Existing REDUCE_GRADs of shared stages are removed. Requires sharding 2 or 3 and no UNSHARD
/// or RESHARD. Error: ranks of a stage run different numbers of backward passes.
tl::expected<Program, std::string> exchange_each_microbatch(const Program& program, std::int32_t sharding);

/// The most passes whose weights a rank holds gathered at a time.
inline constexpr std::size_t kGatheredAhead = 3;

}  // namespace penstock
