#pragma once
// Adds the exchanges of sharded stages around every microbatch. fsdp.hpp has PyTorch's placement, which
// retains gathered weights for the next microbatch.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "schedules/ir/program.hpp"

namespace penstock {

/// Returns the compute program with a REDUCE_GRAD after each backward pass of a shared stage. Under sharding
/// 3, each forward and backward pass also has an UNSHARD before it and a RESHARD after it. While a pass
/// computes, the weights of the next passes are gathered. At most `kGatheredAhead` passes, with the current
/// one, have gathered weights. Existing REDUCE_GRADs of shared stages are removed. Requires sharding 2 or 3
/// and no UNSHARD or RESHARD. Fails if the ranks of a stage run different numbers of backward passes.
tl::expected<Program, std::string> exchange_each_microbatch(const Program& program, std::int32_t sharding);

/// The largest number of passes with gathered weights on a rank at the same time.
inline constexpr std::size_t kGatheredAhead = 3;

}  // namespace penstock
